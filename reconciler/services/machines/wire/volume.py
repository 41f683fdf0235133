"""Volumes and their snapshots as the platform sends them. Source: platform API, 2.2 to 2.4 and 4.2."""

from typing import ClassVar, Literal

from pydantic import Field

from reconciler.core.wire import Wire, parse_time

# Soft-deleted volumes stay listed for a day in these states. Source: platform notes, "Volumes".
GONE_STATES = frozenset(
    {"scheduling_destroy", "pending_destroy", "fork_cleanup", "waiting_for_detach", "destroying", "destroyed"}
)


class Volume(Wire):
    """A volume. A deleted one stays listed for a day (see `present`)."""

    shape: ClassVar = "volume"
    ids: ClassVar = ("id", "attached_machine_id")

    id: str
    name: str | None = None
    state: str | None = None
    size_gb: int | None = None
    region: str | None = None
    zone: str | None = None
    encrypted: bool | None = None
    attached_machine_id: str | None = None
    attached_alloc_id: str | None = None
    created_at: str | None = None
    blocks: int | None = None
    block_size: int | None = None
    blocks_free: int | None = None
    blocks_avail: int | None = None
    fstype: str | None = None
    snapshot_retention: int | None = None
    auto_backup_enabled: bool | None = None
    host_dedication_key: str | None = None

    @property
    def present(self) -> bool:
        return self.state not in GONE_STATES

    @property
    def attached(self) -> bool:
        return bool(self.attached_machine_id or self.attached_alloc_id)

    @property
    def total_bytes(self) -> int | None:
        """The size of its file system. Replies to mutations show 0 blocks: then it is not known."""
        return self.blocks * self.block_size if self.blocks and self.block_size else None

    @property
    def used_bytes(self) -> int | None:
        """How much of `total_bytes` is in use; None where that is not known."""
        total, free = self.total_bytes, self.blocks_free
        return max(total - free * (self.block_size or 0), 0) if total and free is not None else None


class VolumeExtended(Wire):
    volume: Volume
    needs_restart: bool | None = None


LARGEST_GB = 1_000_000  # the platform documents no limit; numbers of all clients can hold this one


class Compute(Wire):
    """Hints about the machine that will hold the volume."""

    cpu_kind: Literal["shared", "performance"] | None = None
    cpus: int | None = Field(None, ge=0)
    gpu_kind: str | None = None
    gpus: int | None = Field(None, ge=0)
    host_dedication_id: str | None = None
    kernel_args: list[str] | None = None
    memory_mb: int | None = Field(None, ge=0)


class VolumeCreate(Wire):
    """The body of a create. `default`: the value that the platform takes for a missing field."""

    name: str = Field(pattern=r"[^\x00-\x20]")
    region: str | None = None
    size_gb: int | None = Field(None, ge=1, le=LARGEST_GB, json_schema_extra={"default": 3})
    encrypted: bool | None = Field(None, json_schema_extra={"default": True})
    fstype: Literal["ext4", "raw"] | None = Field(None, json_schema_extra={"default": "ext4"})
    auto_backup_enabled: bool | None = Field(None, json_schema_extra={"default": True})
    snapshot_retention: int | None = Field(None, ge=1, le=60, json_schema_extra={"default": 5})
    snapshot_id: str | None = None
    source_volume_id: str | None = None
    machines_only: bool | None = None
    require_unique_zone: bool | None = Field(None, json_schema_extra={"default": True})
    compute: Compute | None = None


class VolumeUpdate(Wire):
    auto_backup_enabled: bool | None = None
    snapshot_retention: int | None = Field(None, ge=1, le=60)


class VolumeExtend(Wire):
    size_gb: int = Field(ge=1, le=LARGEST_GB)


class Snapshot(Wire):
    """A snapshot in the list of its volume."""

    shape: ClassVar = "snapshot"

    id: str
    size: int | None = None
    digest: str | None = None
    created_at: str | None = None
    retention_days: int | None = None
    status: str | None = None
    volume_size: int | None = None

    @property
    def usable(self) -> bool:
        """Whether a volume can be created from it. Source: platform notes, "Snapshots".

        Unfinished snapshots are listed with year 1 or another status. A missing status or time means usable.
        """
        finished = self.created_at is None or parse_time(self.created_at) is not None
        return finished and self.status in (None, "", "created")

    @property
    def progress(self) -> str:
        """ "usable", "failed", "running", or "unfinished": without a status, it may also have failed."""
        if self.usable:
            return "usable"
        if self.status == "failed":
            return "failed"
        return "running" if self.status else "unfinished"


class Backup(Wire):
    id: str | None = None
    app_id: str | None = None
    volume_id: str | None = None
    state: str | None = None
    type: str | None = None
    message: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    finished_at: str | None = None
    graph_id: str | None = None


class BackupMessage(Wire):
    backup: Backup


class SnapshotReply(Wire):
    Msg: BackupMessage
