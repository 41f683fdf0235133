"""The form of a seed: what `GET /_sandbox/world` shows, or a person writes. Nothing else is taken.

What follows from the rest (blocks, endpoints, figures of storage) may stand there, and is not read.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from reconciler.core.wire import parse_time
from reconciler.sandbox.clock import LATEST_S, YEAR_ONE
from reconciler.sandbox.fields import NAME, NOT_BLANK
from reconciler.sandbox.fingerprint import FORM
from reconciler.services.machines.wire.cluster import PLANS, STATUSES
from reconciler.services.machines.wire.volume import LARGEST_GB

# Source: platform notes, "Volumes", "Snapshots" and "Machines".
VOLUME_STATES = (
    "creating",
    "created",
    "extending",
    "restoring",
    "enabling_remote_export",
    "hydrating",
    "recovering",
    "scheduling_destroy",
    "pending_destroy",
    "fork_cleanup",
    "waiting_for_detach",
    "destroying",
    "destroyed",
)
SNAPSHOT_STATES = ("waiting", "running", "created", "failed")
MACHINE_STATES = (
    "created",
    "started",
    "running",
    "stopped",
    "suspended",
    "failed",
    "starting",
    "stopping",
    "restarting",
    "suspending",
    "destroying",
    "launch_failed",
    "updating",
    "replacing",
    "destroyed",
    "replaced",
    "migrated",
)
_MOST = 2**53 - 1


def _one_of(*allowed: str) -> Any:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return AfterValidator(check)


def _date(text: str) -> str:
    moment = parse_time(text)
    if moment is None or not 0 <= moment.timestamp() <= LATEST_S:
        raise ValueError(
            f"must be a date and time such as 2026-03-01T12:00:00Z, since 1970: {text!r} is none"
        )
    return text


def _date_or_unknown(text: str) -> str:
    return text if text.startswith(YEAR_ONE[:5]) else _date(text)


def _not_blank(text: str) -> str:
    if not NOT_BLANK.search(text):
        raise ValueError("must not be blank")
    return text


def _nothing_for_empty(value: Any) -> Any:
    return None if value == "" else value


Name = Annotated[str, Field(pattern=NAME)]
Text = Annotated[str, AfterValidator(_not_blank)]
Date = Annotated[str, AfterValidator(_date)]
DateOrUnknown = Annotated[str, AfterValidator(_date_or_unknown)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Size = Annotated[int, Field(ge=1, le=LARGEST_GB)]
Retention = Annotated[int, Field(ge=1, le=60)]
Plan = Annotated[str, _one_of(*PLANS)]


class Item(BaseModel):
    """One thing of a seed. Null means that the field is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def key(self) -> tuple[str, ...] | None:
        """What no other item of its part may have too; None while the sandbox is to choose an id."""
        id = getattr(self, "id", None)
        return None if id is None else (id,)


class AppItem(Item):
    name: Name
    org_slug: Name | None = None
    primary_region: Text | None = None
    secrets_version: Count | None = None

    def key(self) -> tuple[str, ...]:
        return (self.name,)


class OrganizationItem(Item):
    slug: Name
    name: str | None = None


class AttachedAppItem(Item):
    name: Name


class BackupItem(Item):
    id: Text
    type: Annotated[str, _one_of("full", "incr", "diff")] = "full"
    status: Text = "completed"
    size_bytes: Count | None = None
    started_at: Date | None = None
    finished_at: Date | None = None


class ClusterItem(Item):
    id: Name | None = None
    name: Text | None = None
    organization: OrganizationItem | None = None
    region: Text | None = None
    plan: Plan = "basic"
    pg_major_version: Literal["16", "17"] = "16"
    pool_mode: Literal["session", "transaction"] = "session"
    status: Annotated[str, _one_of(*STATUSES)] = "ready"
    disk_size_gb: Annotated[int, Field(ge=10, le=1000)] = 10
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    postgis_enabled: bool = False
    attached_apps: list[AttachedAppItem] = []
    backups: list[BackupItem] = []
    created_at: Date | None = None
    ready_at: Date | None = None
    deleted_at: Date | None = None
    cpu_kind: str | None = None
    cpus: Count | None = None
    memory_mb: Count | None = None
    endpoints: dict[str, Any] | None = None
    storage_provisioned_bytes: Count | None = None
    storage_used_bytes: Count | None = None


class VolumeItem(Item):
    id: Name | None = None
    app: Name
    name: Text
    region: str | None = None
    zone: Text | None = None
    state: Annotated[str, _one_of(*VOLUME_STATES)] = "created"
    size_gb: Size = 3
    encrypted: bool = True
    fstype: Literal["ext4", "raw"] = "ext4"
    snapshot_retention: Retention = 5
    auto_backup_enabled: bool = True
    attached_machine_id: Annotated[Name | None, BeforeValidator(_nothing_for_empty)] = None
    created_at: Date | None = None
    attached_alloc_id: str | None = None
    blocks: Count | None = None
    block_size: Count | None = None
    blocks_free: Count | None = None
    blocks_avail: Count | None = None
    host_dedication_key: str | None = None
    host_status: str | None = None
    bytes_used: Count | None = None
    bytes_total: Count | None = None
    type: str | None = None


class SnapshotItem(Item):
    """`app` and `volume_size` (bytes) make one whose volume is gone."""

    id: Name | None = None
    app: Name | None = None
    volume_id: Name
    status: Annotated[str, _one_of(*SNAPSHOT_STATES)] | None = None
    size: Count | None = None
    digest: str | None = None
    retention_days: Retention = 5
    volume_size: Annotated[int, Field(ge=1, le=LARGEST_GB * 1024**3)] | None = None
    encrypted: bool | None = None
    fstype: Literal["ext4", "raw"] | None = None
    created_at: DateOrUnknown | None = None
    requested_at: Date | None = None


class SecretItem(Item):
    app: Name
    name: Annotated[str, Field(min_length=1)]
    value: str | None = Field(None, repr=False)
    fingerprint: Annotated[str, Field(pattern=FORM)] = ""
    digest: str | None = None
    created_at: Date | None = None
    updated_at: Date | None = None

    def key(self) -> tuple[str, ...]:
        return (self.app, self.name)


class GuestItem(Item):
    cpus: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    cpu_kind: Literal["shared", "performance"] | None = None
    memory_mb: Annotated[int, Field(ge=1, le=_MOST)] | None = None


class InitItem(Item):
    swap_size_mb: Count | None = None


class MountItem(Item):
    volume: Name
    path: str | None = None


class ConfigItem(Item):
    guest: GuestItem = GuestItem()
    init: InitItem = InitItem()
    schedule: Text | None = None
    mounts: list[MountItem] = []


class MachineItem(GuestItem, InitItem):
    """As the world shows it, or the body of the control verb."""

    id: Name | None = None
    app: Name
    name: Text | None = None
    state: Annotated[str, _one_of(*MACHINE_STATES)] | None = None
    region: Text | None = None
    volumes: list[Name] | None = None
    pending_restart: list[Name] = []
    schedule: Text | None = None
    config: ConfigItem = ConfigItem()
    instance_id: Text | None = None
    snapshot: bool | None = None
    memory_kept: bool | None = None
    moved: bool = False
    host: str = ""
    created_at: DateOrUnknown | None = None
    updated_at: DateOrUnknown | None = None
    booted_at: DateOrUnknown | None = None
    private_ip: str | None = None
    host_status: str | None = None


# By part of a seed. A part without a form here is checked by the code that takes it in.
FORMS: Mapping[str, type[Item]] = {
    "apps": AppItem,
    "clusters": ClusterItem,
    "volumes": VolumeItem,
    "snapshots": SnapshotItem,
    "secrets": SecretItem,
    "machines": MachineItem,
}
