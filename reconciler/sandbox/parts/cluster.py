"""Postgres clusters: create, restore, provisioning, and the extended list, delete and backups.

A cluster is `creating`, then `initializing`, then `ready` or failed (switch cluster_outcome). It has
endpoints and a first full backup once it is ready. Names are not unique in an organization unless a switch
says so, and only the id identifies a cluster. A restore always makes a new cluster, from one backup or as of
a moment inside the recovery window. A delete is accepted at once and done a minute later.

Source: platform API, 2.1, 3.1, 4.1 and 7.1; platform notes, "Postgres".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from reconciler.core.wire import parse_time
from reconciler.sandbox import part
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.exchange import Refusal, Request, Response, read, reply
from reconciler.sandbox.parts.app import DEFAULT_REGION, PERSONAL, organization_wire, register_organization
from reconciler.sandbox.world import Thing, Transition, World
from reconciler.services.machines.wire import cluster as wires

if TYPE_CHECKING:
    from reconciler.sandbox.postgres import Servers

# plan → (cpu_kind, cpus, memory_mb)
PLANS: Mapping[str, tuple[str, int, int]] = {
    "basic": ("shared", 2, 1024),
    "starter": ("shared", 2, 2048),
    "launch": ("performance", 2, 8192),
    "scale": ("performance", 4, 32768),
    "Performance": ("performance", 8, 65536),
}
VERSIONS = wires.VERSIONS
POOL_MODES = ("session", "transaction")
PORT = 5432
RESTORE_PATH = "/v1/postgres/{postgres_cluster_id}/restore"
_PLAN_BY_LOWER_CASE = {plan.lower(): plan for plan in PLANS}
_OFFSET = re.compile(r".*(?:[Zz]|[+-]\d{2}:\d{2})")
_ALIVE = ("creating", "initializing", "ready")
_GONE = ("deleting", "deleted")
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_GIB = 1024**3


@dataclass
class Cluster(Thing):
    """`pool_mode` is kept but never returned. `backups` are wire objects."""

    kind = "cluster"
    name: str
    org_slug: str
    region: str
    plan: str
    pg_major_version: str
    disk_size_gb: int
    postgis_enabled: bool
    pool_mode: str
    created_at: float
    replicas: int = 1
    attached_apps: list[str] = field(default_factory=list)
    backups: list[dict[str, Any]] = field(default_factory=list)
    ready_at: float | None = None
    deleted_at: float | None = None


route = part.Routes("cluster")


@route(
    "POST",
    "/v1/postgres",
    "Create a cluster",
    wires.ClusterReply,
    statuses=(201,),
    errors=(404,),
    body=wires.ClusterCreate,
    gives={"id": "/data/id", "postgres_cluster_id": "/data/id"},
    example={"org_slug": "personal", "plan": "basic", "region": "ams", "name": "orders"},
)
def create(world: World, request: Request) -> Response:
    """Begin to provision a cluster; fields that are left out get defaults (switch cluster_defaults)."""
    body = request.object()
    org_slug = body.get("org_slug")
    if not isinstance(org_slug, str):
        raise Refusal(400, "org_slug is required and must be a string")
    if not world.has_organization(org_slug):
        raise Refusal(404, "Organization not found")
    if world.switches["cluster_create"] == "failed":
        raise Refusal(400, "creation failed")
    disk_gb, version, pool_mode, postgis = _DEFAULTS[world.switches["cluster_defaults"]]
    version = world.postgres.newest if world.postgres else version
    wish = read(body, wires.ClusterCreate)
    cluster = Cluster(
        world.new_id(),
        name=(wish.name or "").strip(),
        org_slug=org_slug,
        region=wish.region,
        plan=_PLAN_BY_LOWER_CASE[wish.plan.lower()],
        disk_size_gb=wish.disk_size_gb or disk_gb,
        pg_major_version=wish.pg_major_version or version,
        pool_mode=wish.pool_mode or pool_mode,
        postgis_enabled=postgis if wish.postgis_enabled is None else wish.postgis_enabled,
        created_at=world.now,
    )
    cluster.name = cluster.name or f"pg-{cluster.id[:8]}"
    answer = _provision(world, cluster)
    if world.postgres:
        world.postgres.create(cluster.id, cluster.pg_major_version)
    return answer


@route("GET", "/v1/postgres/{id}", "Get a cluster", wires.ClusterReply)
def get(world: World, request: Request, id: str) -> Response:
    """A cluster in any state (switch deleted_cluster_get). Source: platform API, 4.1."""
    cluster = _required(world, id)
    if cluster.state == "deleted" and world.switches["deleted_cluster_get"] == 404:
        raise Refusal(404, "Cluster not found")
    return reply({"data": wire(world, cluster)})


@route(
    "POST",
    RESTORE_PATH,
    "Restore to a new cluster",
    wires.ClusterReply,
    statuses=(201, 200, 202),
    body=wires.ClusterRestore,
    gives={"id": "/data/id"},
)
def restore(world: World, request: Request, postgres_cluster_id: str) -> Response:
    """Begin to provision a copy of the cluster, from a backup or as of a moment (switch restore_target)."""
    source = _required(world, postgres_cluster_id)
    if source.state in _GONE:
        raise Refusal(404, "Cluster not found")
    wish = request.read(wires.ClusterRestore)
    backup_id, pitr_time = wish.backup_id, wish.pitr_time
    if backup_id is None and pitr_time is None and world.switches["restore_target"] == "optional":
        backup_id = source.backups[-1]["id"] if source.backups else ""
    if (backup_id is None) == (pitr_time is None):
        raise Refusal(422, "exactly one of backup_id and pitr_time is required")
    if backup_id is not None:
        if all(backup["id"] != backup_id for backup in source.backups):
            raise Refusal(404, "Backup not found")
        label = backup_id
    else:
        at = _inside_window(world, source, pitr_time or "")
        label = rfc3339(at)
    cluster = Cluster(
        world.new_id(),
        name=(wish.name or "").strip() or f"{source.name} {label}"[:63],
        **source.shown("org_slug", "region", *_KEPT),
        created_at=world.now,
    )
    answer = _provision(world, cluster, status=world.switches["restore_status"])
    if world.postgres and backup_id is not None:
        world.postgres.restore_backup(source.id, cluster.id, backup_id)
    elif world.postgres:
        world.postgres.restore_moment(source.id, cluster.id, at)
    return answer


@route.extended(
    "GET",
    "/v1/postgres",
    "List clusters",
    wires.ClusterList,
    errors=(404, 422),
    query={"org_slug": {"type": "string"}, "include_deleted": {"type": "boolean"}},
    gives={"id": "/data/0/id", "postgres_cluster_id": "/data/0/id"},
)
def list_all(world: World, request: Request) -> Response:
    """Clusters that the token may touch; deleted ones with `include_deleted`."""
    org_slug = request.parameter("org_slug")
    if org_slug and not world.has_organization(org_slug):
        raise Refusal(404, "Organization not found")
    asked = request.parameter("include_deleted")
    with_deleted = "false" if asked is None else asked.lower()
    if with_deleted not in ("true", "false", "1", "0"):
        raise Refusal(422, "include_deleted must be true or false")
    return reply(
        {
            "data": [
                _summary(cluster)
                for cluster in world.all(Cluster)
                if (not org_slug or cluster.org_slug == org_slug)
                and request.may_touch(cluster.org_slug)
                and (with_deleted in ("true", "1") or cluster.state != "deleted")
            ]
        }
    )


@route.extended("DELETE", "/v1/postgres/{id}", "Delete a cluster", None, statuses=(202,), errors=(410,))
def delete(world: World, request: Request, id: str) -> Response:
    """Begin to delete a cluster. 410 when that has begun before."""
    cluster = _required(world, id)
    if cluster.state in _GONE:
        raise Refusal(
            410, f"This cluster {'is being' if cluster.state == 'deleting' else 'has been'} deleted"
        )
    world.enter(cluster, "deleting")
    return Response(202)


@route.extended(
    "GET",
    "/v1/postgres/{id}/backups",
    "List the backups of a cluster",
    wires.ClusterBackupList,
    gives={"backup_id": "/data/0/id", "postgres_cluster_id": "$request.path.id"},
)
def list_backups(world: World, request: Request, id: str) -> Response:
    """The backups of a cluster, oldest first."""
    return reply({"data": _required(world, id).backups})


def wire(world: World, cluster: Cluster) -> dict[str, Any]:
    """The cluster as reads show it. Endpoints appear when it is ready."""
    cpu_kind, cpus, memory_mb = PLANS[cluster.plan]
    provisioned, used = _storage(world, cluster)
    server = world.postgres and world.postgres.address(cluster.id)
    endpoints = {
        way: server or {"host": f"{way}.{cluster.id}.postgres.internal", "port": PORT}
        for way in ("direct", "pooler")
    }
    return {
        **cluster.shown("id", "name"),
        "organization": organization_wire(cluster.org_slug),
        **cluster.shown("region", "plan", "pg_major_version"),
        "status": cluster.state,
        "cpu_kind": cpu_kind,
        "cpus": cpus,
        "memory_mb": memory_mb,
        **cluster.shown("disk_size_gb", "replicas", "postgis_enabled"),
        "attached_apps": [{"name": name} for name in cluster.attached_apps],
        "endpoints": {"primary": endpoints} if cluster.state == "ready" else {},
        "created_at": rfc3339(cluster.created_at),
        "storage_provisioned_bytes": provisioned,
        "storage_used_bytes": used,
    }


def world_wire(world: World, cluster: Cluster) -> dict[str, Any]:
    """The cluster as the world shows it to tests: with what no answer holds."""
    return {
        **wire(world, cluster),
        "pool_mode": cluster.pool_mode,
        "backups": cluster.backups,
        "ready_at": None if cluster.ready_at is None else rfc3339(cluster.ready_at, 6),
        "deleted_at": None if cluster.deleted_at is None else rfc3339(cluster.deleted_at, 6),
    }


def _finish_provisioning(world: World, cluster: Cluster, at: float) -> None:
    outcome = world.switches["cluster_outcome"]
    if world.postgres and world.postgres.address(cluster.id) is None:
        outcome = "failed"
    world.enter(cluster, outcome, at)
    if outcome == "ready":
        cluster.ready_at = at
        back_up(world, cluster, at)


def back_up(world: World, cluster: Cluster, at: float) -> dict[str, Any]:
    """Add a full backup to those of the cluster. Raises Refusal 412 unless ready and without one of `at`."""
    id = f"{rfc3339(at).translate(_LABEL)}F"
    if cluster.state != "ready":
        raise Refusal(412, "the cluster is not ready")
    if any(backup["id"] == id for backup in cluster.backups):
        raise Refusal(412, f"there is a backup of this second, {id}")
    size = world.postgres.back_up(cluster.id, id) if world.postgres else 32 * 1024**2
    backup = {
        "id": id,
        "type": "full",
        "status": "failed" if size is None else "completed",
        "size_bytes": size or 0,
        "started_at": rfc3339(at),
        "finished_at": rfc3339(at),
    }
    cluster.backups.append(backup)
    world.put(cluster)
    return backup


def attach_servers(world: World, servers: "Servers") -> None:
    """Start the PostgreSQL servers of the clusters of a world that was stored."""
    alive = [cluster for cluster in world.all(Cluster) if cluster.state in _ALIVE]
    ready = {cluster.id for cluster in alive if cluster.state == "ready"}
    servers.attach({cluster.id: cluster.pg_major_version for cluster in alive}, ready)


def remove_server(world: World, cluster: Cluster) -> None:
    """Remove the PostgreSQL server of a deleted cluster, with its data and backups."""
    if world.postgres:
        world.postgres.remove(cluster.id)


def _finish_deleting(world: World, cluster: Cluster, at: float) -> None:
    cluster.deleted_at = at
    remove_server(world, cluster)
    world.enter(cluster, "deleted", at)


def _provision(world: World, cluster: Cluster, *, status: int = 201) -> Response:
    """Begin to provision a cluster. Raises Refusal 422 for a taken name (cluster_name_collision)."""
    if world.switches["cluster_name_collision"] == "refuse" and any(
        (other.name, other.org_slug) == (cluster.name, cluster.org_slug) and other.state not in _GONE
        for other in world.all(Cluster)
    ):
        raise Refusal(422, "name has already been taken")
    world.enter(cluster, "creating")
    return reply({"data": wire(world, cluster)}, status)


def _required(world: World, id: str) -> Cluster:
    cluster = world.find(Cluster, id)
    if cluster is None:
        raise Refusal(404, "Cluster not found")
    return cluster


def _inside_window(world: World, source: Cluster, text: str) -> float:
    """The moment in `text`, in seconds. Raises Refusal 422 without a UTC offset or outside of the window.

    The window begins when the cluster became ready, at most `pitr_window_days` ago, and ends now.
    """
    moment = parse_time(text) if _OFFSET.fullmatch(text) else None
    if moment is None:
        raise Refusal(422, "pitr_time must be an RFC 3339 timestamp with an explicit UTC offset")
    at = moment.timestamp()
    oldest = world.now - world.switches["pitr_window_days"] * _DAY_S
    if source.ready_at is None or not max(int(source.ready_at), oldest) <= at <= world.now:
        raise Refusal(422, "pitr_time is outside the point-in-time recovery window")
    return at


def _summary(cluster: Cluster) -> dict[str, Any]:
    deleted = {} if cluster.deleted_at is None else {"deleted_at": rfc3339(cluster.deleted_at)}
    return {
        **cluster.shown("id", "name", "plan", "region"),
        "status": cluster.state,
        "attached_apps": [{"name": name} for name in cluster.attached_apps],
        "created_at": rfc3339(cluster.created_at),
        **deleted,
    }


def _storage(world: World, cluster: Cluster) -> tuple[int | None, int | None]:
    """Provisioned and used bytes as of the last hourly measurement; None before the first."""
    hours = 0 if cluster.ready_at is None else int((world.now - cluster.ready_at) // _HOUR_S)
    if hours < 1:
        return None, None
    provisioned = cluster.disk_size_gb * cluster.replicas * _GIB
    return provisioned, min(provisioned, (64 + hours) * 1024**2)


# Disk, version, pool mode and PostGIS where a create leaves them out (switch cluster_defaults).
_DEFAULTS = {
    "known": (10, VERSIONS[0], POOL_MODES[0], False),
    "other": (20, VERSIONS[1], POOL_MODES[1], True),
}
_LABEL = str.maketrans({"-": "", ":": "", "T": "-", "Z": ""})


Plan = Annotated[str, part.one_of(*PLANS)]


class OrganizationItem(part.Item):
    """The organization of a cluster in a seed; it exists from then on."""

    slug: part.Name
    name: str | None = None


class AttachedAppItem(part.Item):
    """An app that a cluster is attached to."""

    name: part.Name


class BackupItem(part.Item):
    """A backup of a cluster in a seed."""

    id: part.Text
    type: Annotated[str, part.one_of("full", "incr", "diff")] = "full"
    status: part.Text = "completed"
    size_bytes: part.Count | None = None
    started_at: part.Date | None = None
    finished_at: part.Date | None = None


class ClusterItem(part.Item):
    """A cluster in a seed: what the world shows of it."""

    id: part.Name | None = None
    name: part.Text | None = None
    organization: OrganizationItem | None = None
    region: part.Text | None = None
    plan: Plan = "basic"
    pg_major_version: Annotated[str, Field(pattern="^[0-9]+$")] = "16"
    pool_mode: Literal["session", "transaction"] = "session"
    status: Annotated[str, part.one_of(*wires.STATUSES)] = "ready"
    disk_size_gb: Annotated[int, Field(ge=10, le=1000)] = 10
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    postgis_enabled: bool = False
    attached_apps: list[AttachedAppItem] = Field(default_factory=list)
    backups: list[BackupItem] = Field(default_factory=list)
    created_at: part.Date | None = None
    ready_at: part.Date | None = None
    deleted_at: part.Date | None = None
    cpu_kind: str | None = None
    cpus: part.Count | None = None
    memory_mb: part.Count | None = None
    endpoints: dict[str, Any] | None = None
    storage_provisioned_bytes: part.Count | None = None
    storage_used_bytes: part.Count | None = None


_KEPT = {"plan", "pg_major_version", "disk_size_gb", "postgis_enabled", "pool_mode", "replicas"}


def _plant(world: World, item: ClusterItem) -> None:
    slug = item.organization.slug if item.organization else PERSONAL
    register_organization(world, slug)
    created_at = part.moment_or_now(world, item.created_at)
    id = item.id or world.new_id()
    ready_at = part.moment(item.ready_at)
    cluster = Cluster(
        id,
        name=item.name or id,
        org_slug=slug,
        region=item.region or DEFAULT_REGION,
        **item.model_dump(include=_KEPT),
        attached_apps=[app.name for app in item.attached_apps],
        backups=[backup.model_dump() for backup in item.backups],
        created_at=created_at,
        ready_at=created_at if ready_at is None and item.status == "ready" else ready_at,
        deleted_at=part.moment(item.deleted_at),
    )
    world.enter(cluster, item.status)
    if world.postgres and cluster.state in _ALIVE:
        world.postgres.plant(cluster.id, cluster.pg_major_version)


def _missing(items: part.Items) -> Iterator[str]:
    apps = part.apps_in(items)
    for number, cluster in enumerate(items["clusters"]):
        for place, attached in enumerate(cluster.attached_apps):
            if attached.name not in apps:
                yield f"clusters[{number}].attached_apps[{place}].name: there is no app {attached.name}"


_SEED = part.Seed(
    "clusters",
    Cluster,
    shown=world_wire,
    columns=("id", "name", ("status", "state"), "plan", "region", ("disk GB", "disk_size_gb")),
    plant=_plant,
    form=ClusterItem,
    after=("apps",),
    missing=_missing,
)

PART = part.Part(
    routes=route.found,
    transitions={
        ("cluster", "creating"): Transition(30, "initializing"),
        ("cluster", "initializing"): Transition(120, _finish_provisioning),
        ("cluster", "deleting"): Transition(60, _finish_deleting),
    },
    things=(Cluster,),
    seeds=(_SEED,),
)
