"""Snapshots of volumes: the list, the on-demand snapshot, and the end of every day of a volume's life.

A snapshot is waiting for 2 s, when no list shows it, then running for 10 s, when it is listed with size 0 and
the date of year 1, then created or failed. A volume has one unfinished snapshot at a time. A finished one is
removed after the retention that the volume had when it was requested. A day of a volume ends with the
automatic snapshot, and with growth by others (switch auto_extend_gb).

Source: platform API, 2.2 (`auto_backup_enabled`), 2.3, 2.4 and 4.2; platform notes, "Snapshots" and
"Volumes".
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.sandbox import part
from reconciler.sandbox.clock import YEAR_ONE, rfc3339
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.parts.app import register, required_in_app
from reconciler.sandbox.parts.volume import DAY_S, GIB, Day, Snapshot, Volume, changeable, grow
from reconciler.sandbox.world import Transition, World
from reconciler.services.machines.wire import volume as wires
from reconciler.services.machines.wire.volume import LARGEST_GB

SCHEDULED_S = 2
RUNNING_S = 10
_LESS_KNOWN = ("status", "volume_size")
MOST_GB = 500  # others grow a volume no further


_SNAPSHOTS = "/v1/apps/{app_name}/volumes/{volume_id}/snapshots"
route = part.Routes("snapshot")


@route("GET", _SNAPSHOTS, "List snapshots", list[wires.Snapshot], gives={"snapshot_id": "/0/id"})
def list_all(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """A snapshot is listed a few moments after its request. Source: platform API, 4.2 rule 3."""
    required_in_app(world, Volume, app_name, volume_id)
    snapshots = world.children(Snapshot, volume_id)
    return reply([wire(world, snapshot) for snapshot in snapshots if snapshot.state != "waiting"])


@route(
    "POST",
    _SNAPSHOTS,
    "Create an on-demand snapshot",
    wires.SnapshotReply,
    errors=(412,),
    gives={"snapshot_id": "/Msg/backup/graph_id"},
)
def create(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """Begin an on-demand snapshot. 412 while another is being taken. Source: platform API, 4.2 rule 3."""
    volume = changeable(world, app_name, volume_id)
    other = unfinished(world, volume)
    if other is not None:
        scheduled_at = rfc3339(other.requested_at)
        raise Refusal(412, f"failed_precondition: snapshot is already scheduled at {scheduled_at}")
    snapshot = schedule(world, volume, world.now)
    if world.switches["snapshot_reply"] == "empty":
        return Response(200)
    return reply({"Msg": {"backup": _backup(world, snapshot)}})


def unfinished(world: World, volume: Volume) -> Snapshot | None:
    """The one that is being taken, if any: the platform takes one at a time."""
    snapshots = world.children(Snapshot, volume.id)
    return next((snapshot for snapshot in snapshots if snapshot.state in ("waiting", "running")), None)


def schedule(world: World, volume: Volume, at: float) -> Snapshot:
    """A snapshot asked for at `at`, which keeps the retention that the volume has then."""
    snapshot = Snapshot(
        f"vs_{world.new_id()}",
        volume_id=volume.id,
        app=volume.app,
        volume_size_gb=volume.size_gb,
        encrypted=volume.encrypted,
        fstype=volume.fstype,
        retention_days=volume.snapshot_retention,
        requested_at=at,
    )
    world.enter(snapshot, "waiting", at)
    return snapshot


def wire(world: World, snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as the list shows it: an unfinished one has size 0 and was created in year 1."""
    fields = world.switches["snapshot_fields"]
    hidden = {"known": (), "documented": _LESS_KNOWN, "bare": (*_LESS_KNOWN, "retention_days")}[fields]
    return {name: value for name, value in _shown(snapshot).items() if name not in hidden}


def _world_wire(world: World, snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as the world shows it to tests: whole, whatever the switches."""
    return {
        **snapshot.shown("app", "volume_id"),
        **_shown(snapshot),
        **snapshot.shown("encrypted", "fstype"),
        "requested_at": rfc3339(snapshot.requested_at),
    }


def _shown(snapshot: Snapshot) -> dict[str, Any]:
    digest = hashlib.sha256(snapshot.id.encode()).hexdigest() if snapshot.digest is None else snapshot.digest
    return {
        **snapshot.shown("id", "size"),
        "digest": "" if snapshot.created_at is None else digest,
        "created_at": YEAR_ONE if snapshot.created_at is None else rfc3339(snapshot.created_at),
        "retention_days": snapshot.retention_days,
        "status": snapshot.state,
        "volume_size": snapshot.volume_size_gb * GIB,
    }


def _backup(world: World, snapshot: Snapshot) -> dict[str, Any]:
    at = rfc3339(world.now, 9)
    return {
        "id": f"bkp_{world.new_id()}",
        "app_id": snapshot.app,
        "volume_id": snapshot.volume_id,
        "state": "prepare",
        "type": "BACKUP_TYPE_ON_DEMAND",
        "message": "",
        "created_at": at,
        "updated_at": at,
        "finished_at": None,
        "graph_id": snapshot.id,
    }


def _finish(world: World, snapshot: Snapshot, at: float) -> None:
    if world.switches["snapshot_outcome"] == "failed":
        world.enter(snapshot, "failed", at)
        return
    snapshot.created_at = at
    snapshot.size = snapshot.volume_size_gb * GIB // 20
    world.enter(snapshot, "created", at, lasts_s=snapshot.retention_days * DAY_S)


# Source: platform notes, "Snapshots".
STATES = ("waiting", "running", "created", "failed")


class SnapshotItem(part.Item):
    """`app` and `volume_size` (bytes) make one whose volume is gone."""

    id: part.Name | None = None
    app: part.Name | None = None
    volume_id: part.Name
    status: Annotated[str, part.one_of(*STATES)] | None = None
    size: part.Count | None = None
    digest: str | None = None
    retention_days: part.Retention = 5
    volume_size: Annotated[int, Field(ge=1, le=LARGEST_GB * 1024**3)] | None = None
    encrypted: bool | None = None
    fstype: Literal["ext4", "raw"] | None = None
    created_at: part.DateOrUnknown | None = None
    requested_at: part.Date | None = None


def _plant(world: World, item: SnapshotItem) -> None:
    source = world.find(Volume, item.volume_id)
    app = item.app or (source.app if source else "")
    register(world, app)
    unknown = item.created_at is not None and item.created_at.startswith(YEAR_ONE[:5])
    state = item.status or ("running" if unknown else "created")
    finished = state == "created" or (state == "failed" and item.created_at is not None and not unknown)
    created_at = part.moment_or_now(world, item.created_at) if finished else None
    requested_at = part.moment(item.requested_at)
    size_gb = source.size_gb if source else 1
    snapshot = Snapshot(
        item.id or f"vs_{world.new_id()}",
        volume_id=item.volume_id,
        app=app,
        volume_size_gb=math.ceil(item.volume_size / GIB) if item.volume_size else size_gb,
        encrypted=(source is None or source.encrypted) if item.encrypted is None else item.encrypted,
        fstype=item.fstype or (source.fstype if source else "ext4"),
        retention_days=item.retention_days,
        requested_at=(created_at or world.now) if requested_at is None else requested_at,
        created_at=created_at,
        size=item.size or 0,
        digest=item.digest or None,
    )
    lasts_s = item.retention_days * DAY_S if state == "created" else None
    world.enter(snapshot, state, created_at if state == "created" else None, lasts_s)


def _missing(items: part.Items) -> Iterator[str]:
    volumes = {item.id: item.app for item in items["volumes"]}
    for number, snapshot in enumerate(items["snapshots"]):
        alone = snapshot.app is not None and snapshot.volume_size is not None
        if snapshot.volume_id not in volumes and not alone:
            yield (
                f"snapshots[{number}].volume_id: there is no volume {snapshot.volume_id}; a snapshot "
                "without its volume needs `app` and `volume_size`"
            )
        elif snapshot.app not in (None, volumes.get(snapshot.volume_id, snapshot.app)):
            yield f"snapshots[{number}].app: its volume belongs to app {volumes[snapshot.volume_id]}"


def _end_day(world: World, day: Day, at: float) -> None:
    volume = world.find(Volume, day.id)
    if volume is None:
        world.remove(day)
        return
    # Of a long jump of the clock, the first days leave no trace: their snapshots expire within it.
    days = 1 + max(0, int((world.now - at) // DAY_S) - volume.snapshot_retention - 1)
    end = at + (days - 1) * DAY_S
    grown_gb = min(volume.size_gb + days * int(world.switches["auto_extend_gb"]), MOST_GB)
    if grown_gb > volume.size_gb and volume.state == "created":
        grow(volume, grown_gb)
        world.put(volume)
    wanted = volume.auto_backup_enabled and world.switches["daily_snapshots"] == "on"
    if wanted and volume.state == "created" and unfinished(world, volume) is None:
        schedule(world, volume, end)
    world.enter(day, "passing", end)


_SEED = part.Seed(
    "snapshots",
    Snapshot,
    shown=_world_wire,
    columns=(
        "id",
        ("volume", "volume_id"),
        "state",
        (
            "created at",
            lambda world, snapshot: "" if snapshot.created_at is None else rfc3339(snapshot.created_at),
        ),
        ("days kept", "retention_days"),
    ),
    plant=_plant,
    form=SnapshotItem,
    after=("volumes",),
    missing=_missing,
)

PART = part.Part(
    routes=route.found,
    transitions={
        ("snapshot", "waiting"): Transition(SCHEDULED_S, "running"),
        ("snapshot", "running"): Transition(RUNNING_S, _finish),
        ("day", "passing"): Transition(DAY_S, _end_day),
        ("snapshot", "created"): Transition(5 * DAY_S, None),
    },
    things=(Snapshot,),
    seeds=(_SEED,),
)
