"""The fields of a volume's manifest. Source: platform API, 4.2."""

from typing import Annotated, Literal

from pydantic import Discriminator, Tag
from pydantic import Field as Describe

from reconciler.kinds.manifest import FREE_NAME, TEXT_PATTERN, Spec
from reconciler.kinds.volume.origins import Origin

MOST_GB = 100_000  # the document names no largest size; one in bytes is a mistake


class Compute(Spec):
    """The machine that the volume is meant for; used to place it on suitable hardware."""

    cpu_kind: Literal["shared", "performance"] | None = Describe(None, description="Kind of its CPUs.")
    cpus: int | None = Describe(None, ge=1, description="Number of its CPUs.", examples=[2])
    gpu_kind: str | None = Describe(
        None, pattern=TEXT_PATTERN, description="Model of its GPUs.", examples=["a100-pcie-40gb"]
    )
    gpus: int | None = Describe(None, ge=0, description="Number of its GPUs.", examples=[1])
    host_dedication_id: str | None = Describe(
        None, pattern=TEXT_PATTERN, description="Dedicated host to place the volume on.", examples=["hd_123"]
    )
    kernel_args: list[Annotated[str, Describe(pattern=TEXT_PATTERN)]] | None = Describe(
        None, description="Arguments of its kernel.", examples=[["quiet"]]
    )
    memory_mb: int | None = Describe(None, ge=1, description="Its memory in MB.", examples=[2048])


class SizeRange(Spec):
    """Created with `min`; growth by others up to `max` is not drift."""

    min: int = Describe(
        ge=1,
        le=MOST_GB,
        description="Size in GB to create with, and to extend to when smaller.",
        examples=[10],
    )
    max: int = Describe(
        ge=1, le=MOST_GB, description="Largest size in GB to which others may extend it.", examples=[50]
    )


Size = Annotated[
    Annotated[int, Describe(ge=1, le=MOST_GB), Tag("gigabytes")] | Annotated[SizeRange, Tag("range")],
    Discriminator(lambda value: "range" if isinstance(value, dict | SizeRange) else "gigabytes"),
]


class VolumeSpec(Spec):
    """A disk of an app: created, forked or made from a snapshot, extended, and never shrunk or replaced."""

    name: str | None = Describe(
        None,
        max_length=255,
        pattern=FREE_NAME,
        description="Name on the platform, which may hold spaces; default: metadata.name.",
        examples=["data"],
    )
    region: str | None = Describe(
        None,
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Region code; default: the app's primary region.",
    )
    size_gb: Size | None = Describe(
        None,
        description="Size in GB, or {min, max}; default 3. Volumes can grow, never shrink; "
        "growing may require a restart of the attached machine.",
        examples=[10, {"min": 10, "max": 50}],
    )
    count: int | None = Describe(
        None,
        ge=1,
        le=1000,
        description="Number of volumes with this name, one per hardware zone.",
        examples=[3],
    )
    encrypted: bool | None = Describe(
        None, description="Encryption at rest; default true. Fixed at creation."
    )
    fstype: Literal["ext4", "raw"] | None = Describe(
        None, description="File system; default ext4. Fixed at creation.", examples=["ext4"]
    )
    auto_backup_enabled: bool | None = Describe(None, description="Automatic daily snapshots; default true.")
    snapshot_retention: int | None = Describe(
        None, ge=1, le=60, description="Days to keep snapshots; default 5. Applies to new snapshots only."
    )
    snapshot_id: str | None = Describe(
        None,
        pattern=TEXT_PATTERN,
        description="The platform's own name for `from.snapshot_id`.",
        examples=["vs_123"],
    )
    source_volume_id: str | None = Describe(
        None,
        pattern=TEXT_PATTERN,
        description="The platform's own name for `from.source_volume_id`.",
        examples=["vol_123"],
    )
    from_: Origin | None = Describe(
        None,
        alias="from",
        description="Where the data comes from; used at creation only.",
        examples=[{"volume": "data"}, {"snapshot_id": "vs_123"}],
    )
    machines_only: bool | None = Describe(
        None, description="Attach to machines only, not to legacy allocations."
    )
    require_unique_zone: bool | None = Describe(
        None, description="Default true: place it on hardware that has no other volume with this name."
    )
    compute: Compute | None = Describe(
        None,
        description="The machine that the volume is meant for; used to place it on suitable hardware.",
        examples=[{"cpus": 2, "memory_mb": 2048}],
    )

    @property
    def wanted_size_gb(self) -> int | None:
        """The size to create with or to grow to."""
        return self.size_gb.min if isinstance(self.size_gb, SizeRange) else self.size_gb

    @property
    def largest_size_gb(self) -> int | None:
        """The largest live size that is not a difference."""
        return self.size_gb.max if isinstance(self.size_gb, SizeRange) else self.size_gb

    @property
    def origin(self) -> Origin | None:
        """`from`, or the documented body's own fields for the same thing."""
        if self.from_ is not None:
            return self.from_
        if self.snapshot_id or self.source_volume_id:
            return Origin(snapshot_id=self.snapshot_id, source_volume_id=self.source_volume_id)
        return None
