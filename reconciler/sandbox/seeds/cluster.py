"""Clusters of a seed."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.sandbox.part import Items, Seed, apps_in
from reconciler.sandbox.parts.app import DEFAULT_REGION, PERSONAL, register_organization
from reconciler.sandbox.parts.cluster import Cluster, world_wire
from reconciler.sandbox.seed_form import Count, Date, Item, Name, Text, moment, moment_or_now, one_of
from reconciler.sandbox.world import World
from reconciler.services.machines.wire.cluster import PLANS, STATUSES

Plan = Annotated[str, one_of(*PLANS)]


class OrganizationItem(Item):
    slug: Name
    name: str | None = None


class AttachedAppItem(Item):
    name: Name


class BackupItem(Item):
    id: Text
    type: Annotated[str, one_of("full", "incr", "diff")] = "full"
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
    status: Annotated[str, one_of(*STATUSES)] = "ready"
    disk_size_gb: Annotated[int, Field(ge=10, le=1000)] = 10
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    postgis_enabled: bool = False
    attached_apps: list[AttachedAppItem] = Field(default_factory=list)
    backups: list[BackupItem] = Field(default_factory=list)
    created_at: Date | None = None
    ready_at: Date | None = None
    deleted_at: Date | None = None
    cpu_kind: str | None = None
    cpus: Count | None = None
    memory_mb: Count | None = None
    endpoints: dict[str, Any] | None = None
    storage_provisioned_bytes: Count | None = None
    storage_used_bytes: Count | None = None


def _plant(world: World, item: ClusterItem) -> None:
    slug = item.organization.slug if item.organization else PERSONAL
    register_organization(world, slug)
    created_at = moment_or_now(world, item.created_at)
    id = item.id or world.new_id()
    ready_at = moment(item.ready_at)
    cluster = Cluster(
        id,
        name=item.name or id,
        org_slug=slug,
        region=item.region or DEFAULT_REGION,
        plan=item.plan,
        pg_major_version=item.pg_major_version,
        disk_size_gb=item.disk_size_gb,
        postgis_enabled=item.postgis_enabled,
        pool_mode=item.pool_mode,
        replicas=item.replicas,
        attached_apps=[app.name for app in item.attached_apps],
        backups=[backup.model_dump() for backup in item.backups],
        created_at=created_at,
        ready_at=created_at if ready_at is None and item.status == "ready" else ready_at,
        deleted_at=moment(item.deleted_at),
    )
    world.enter(cluster, item.status)


def _missing(items: Items) -> Iterator[str]:
    apps = apps_in(items)
    for number, cluster in enumerate(items["clusters"]):
        for place, attached in enumerate(cluster.attached_apps):
            if attached.name not in apps:
                yield f"clusters[{number}].attached_apps[{place}].name: there is no app {attached.name}"


SEED = Seed(
    "clusters",
    Cluster,
    shown=world_wire,
    titles=("id", "name", "status", "plan", "region", "disk GB"),
    cells=lambda world, each: (each.id, each.name, each.state, each.plan, each.region, each.disk_size_gb),
    plant=_plant,
    form=ClusterItem,
    after=("apps",),
    missing=_missing,
)
