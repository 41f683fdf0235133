"""Snapshots of volumes: the list, and the on-demand snapshot.

Source: platform API, 2.3, 2.4 and 4.2; platform notes, "Snapshots".
"""

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from reconciler.sandbox.clock import YEAR_ONE, rfc3339
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.part import Part
from reconciler.sandbox.parts.volume import DAY_S, GIB, Snapshot, Volume, required
from reconciler.sandbox.routing import Routes
from reconciler.sandbox.world import Transition, Transitions, World
from reconciler.services.machines.wire import volume as wires

SCHEDULED_S = 2
RUNNING_S = 10


_SNAPSHOTS = "/v1/apps/{app_name}/volumes/{volume_id}/snapshots"
route = Routes("snapshot")


@route("GET", _SNAPSHOTS, "List snapshots", list[wires.Snapshot], gives={"snapshot_id": "/0/id"})
def list_all(world: World, request: Request, app_name: str, volume_id: str) -> Response:
    """A snapshot is listed a few moments after its request. Source: platform API, 4.2 rule 3."""
    required(world, app_name, volume_id)
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
    volume = required(world, app_name, volume_id)
    if not volume.present:
        raise Refusal(412, "failed_precondition: volume is being destroyed", "failed_precondition")
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
    return next((each for each in snapshots if each.state in ("waiting", "running")), None)


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
    documented = _documented(snapshot)
    if world.switches["snapshot_fields"] == "bare":
        del documented["retention_days"]
    if world.switches["snapshot_fields"] != "known":
        return documented
    return {**documented, **_known(snapshot)}


def world_wire(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as the world shows it to tests: whole, whatever the switches."""
    return {
        "app": snapshot.app,
        "volume_id": snapshot.volume_id,
        **_documented(snapshot),
        **_known(snapshot),
        "encrypted": snapshot.encrypted,
        "fstype": snapshot.fstype,
        "requested_at": rfc3339(snapshot.requested_at),
    }


def _documented(snapshot: Snapshot) -> dict[str, Any]:
    digest = hashlib.sha256(snapshot.id.encode()).hexdigest() if snapshot.digest is None else snapshot.digest
    return {
        "id": snapshot.id,
        "size": snapshot.size,
        "digest": "" if snapshot.created_at is None else digest,
        "created_at": YEAR_ONE if snapshot.created_at is None else rfc3339(snapshot.created_at),
        "retention_days": snapshot.retention_days,
    }


def _known(snapshot: Snapshot) -> dict[str, Any]:
    return {"status": snapshot.state, "volume_size": snapshot.volume_size_gb * GIB}


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


def _run(world: World, snapshot: Snapshot, at: float) -> None:
    world.enter(snapshot, "running", at)


def _finish(world: World, snapshot: Snapshot, at: float) -> None:
    if world.switches["snapshot_outcome"] == "failed":
        world.enter(snapshot, "failed", at)
        return
    snapshot.created_at = at
    snapshot.size = snapshot.volume_size_gb * GIB // 20
    world.enter(snapshot, "created", at, lasts_s=snapshot.retention_days * DAY_S)


def _expire(world: World, snapshot: Snapshot, at: float) -> None:
    world.remove(snapshot)


def _list_paths(world: World) -> Iterator[str]:
    for each in world.all(Volume):
        yield f"/v1/apps/{quote(each.app, safe='')}/volumes/{each.id}/snapshots"


_TRANSITIONS: Transitions = {
    ("snapshot", "waiting"): Transition(SCHEDULED_S, _run),
    ("snapshot", "running"): Transition(RUNNING_S, _finish),
    ("snapshot", "created"): Transition(5 * DAY_S, _expire),
}


PART = Part(routes=route.found, transitions=_TRANSITIONS, things=(Snapshot,), list_paths=_list_paths)
