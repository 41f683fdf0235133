"""Postgres clusters as the platform sends them. Source: platform API, 2.1 and 4.1."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from reconciler.core.wire import Wire, parse_time, shown_enum

PLANS = ("basic", "starter", "launch", "scale", "Performance")
VERSIONS = ("16", "17")
STATUSES = ("creating", "initializing", "ready", "failed", "error", "deleting", "deleted")


class Organization(Wire):
    name: str | None = None
    slug: str | None = None


class Endpoint(Wire):
    host: str | None = None
    port: int | None = None


class EndpointPair(Wire):
    direct: Endpoint | None = None
    pooler: Endpoint | None = None


class Endpoints(Wire):
    primary: EndpointPair | None = None


class AttachedApp(Wire):
    name: str | None = None


class Cluster(Wire):
    shape: ClassVar = "cluster"
    one_at: ClassVar = "data"
    many_at: ClassVar = "data"

    id: str
    name: str | None = None
    organization: Organization | None = None
    region: str | None = None
    plan: str | None = shown_enum(*PLANS)
    pg_major_version: str | None = shown_enum(*VERSIONS)
    status: str | None = shown_enum(*STATUSES)
    cpu_kind: str | None = shown_enum("shared", "performance")
    cpus: int | None = None
    memory_mb: int | None = None
    disk_size_gb: int | None = None
    replicas: int | None = None
    postgis_enabled: bool | None = None
    attached_apps: list[AttachedApp] | None = None
    endpoints: Endpoints | dict[str, Any] | None = None
    created_at: str | None = None
    storage_provisioned_bytes: int | None = None
    storage_used_bytes: int | None = None

    @property
    def present(self) -> bool:
        return self.status not in ("deleting", "deleted")

    # What a volume has, too.
    attached: ClassVar = None

    @property
    def size_gb(self) -> int | None:
        return self.disk_size_gb

    @property
    def used_bytes(self) -> int | None:
        return self.storage_used_bytes

    @property
    def total_bytes(self) -> int | None:
        return self.storage_provisioned_bytes


class ClusterReply(Wire):
    data: Cluster


class ClusterList(Wire):
    """Capability `postgres.list`."""

    data: list[Cluster]


class ClusterBackup(Wire):
    """Capability `postgres.backups`."""

    shape: ClassVar = "cluster_backup"
    many_at: ClassVar = "data"

    id: str
    type: str | None = None
    status: str | None = None
    size_bytes: int | None = None
    started_at: str | None = None
    finished_at: str | None = None

    @property
    def usable_from(self) -> datetime | None:
        """When it was finished; None for one that runs, or that has failed."""
        return parse_time(self.finished_at) if self.status not in ("failed", "error") else None


class ClusterBackupList(Wire):
    data: list[ClusterBackup]


NAME = r"^[^\x00-\x1f\x7f]{0,63}$"
# Matched case-insensitively, which JSON Schema can only spell out.
PLAN = "^(" + "|".join("".join(f"[{c.lower()}{c.upper()}]" for c in plan) for plan in PLANS) + ")$"
_ONE_TARGET: Any = [
    {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
    for one, other in (("backup_id", "pitr_time"), ("pitr_time", "backup_id"))
]


class ClusterCreate(Wire):
    """The body of a create; the platform accepts a plan in upper or lower case."""

    org_slug: str
    plan: str = Field(pattern=PLAN, examples=list(PLANS))
    region: str = Field(pattern=r"[^\x00-\x20]")
    name: str | None = Field(None, pattern=NAME)
    disk_size_gb: int | None = Field(None, ge=10, le=1000)
    pg_major_version: Literal["16", "17"] | None = None
    pool_mode: Literal["session", "transaction"] | None = None
    postgis_enabled: bool | None = None


class ClusterRestore(Wire):
    """Exactly one of `backup_id` and `pitr_time`. Source: platform notes, "Postgres"."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _ONE_TARGET})

    backup_id: str | None = None
    pitr_time: str | None = Field(None, json_schema_extra={"format": "date-time"})
    name: str | None = Field(None, pattern=NAME)


class App(Wire):
    """Source: what clients written by others read of an app."""

    id: str
    name: str
    organization: Organization
    status: str | None = None
    machine_count: int | None = None


class AppList(Wire):
    total_apps: int
    apps: list[App]
