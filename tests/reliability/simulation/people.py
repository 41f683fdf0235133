"""What people do: on the platform with their own hands, and when the product asks them."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.core.model import Address, StateRecord
from reconciler.sandbox.exchange import Request
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.parts.volume import Volume
from reconciler.services.machines.wire.machine import GONE_STATES
from tests.reliability.simulation.ghost import Ghost, Touch
from tests.reliability.simulation.power import AT_REST, wanted_power
from tests.reliability.simulation.scenario import Edit

if TYPE_CHECKING:
    from tests.reliability.simulation.history import History

SETTLE_S = 180.0  # only then is it certain what a call did


# --- on the platform ---


def edit(history: "History", wish: Edit) -> None:
    """Carry `wish` out, if what it is about exists."""
    ghost = history.ghost
    history.network.remember()
    if wish.kind in MACHINE_EDITS:
        done = _edit_machine(ghost, wish)
    elif wish.app is None:
        done = _edit_cluster(ghost, wish)
    elif wish.kind in ("twin", "held_twin"):
        done = _make_twin(ghost, wish)
    else:
        done = _edit_volume(ghost, wish)
    if done:
        ghost.tally.note("edit", wish.kind)
        ghost.note("a person", wish.kind, wish.app, wish.name, wish.pick)
        ghost.last_disturbance_s = ghost.timeline.time()


def _make_twin(ghost: Ghost, wish: Edit) -> bool:
    """Somebody makes a volume of the same name, and a machine may hold it at once."""
    body = {"name": wish.name, "region": "ams", "size_gb": 10}
    made = _call(ghost, "POST", f"/v1/apps/{wish.app}/volumes", body)
    if made is None:
        return False
    ghost.born_at[made["id"]] = ghost.timeline.time()
    volume = ghost.volume(made["id"])
    if wish.kind == "held_twin" and volume is not None:
        _attach(ghost, volume)
    return True


def _edit_volume(ghost: Ghost, wish: Edit) -> bool:
    there = [
        volume
        for volume in ghost.sandbox.world.all(Volume)
        if (volume.app, volume.name) == (wish.app, wish.name) and volume.present
    ]
    if not there:
        return False
    if wish.kind == "mount":
        if not ghost.managed:
            return False
        for volume in there:
            if volume.attached_machine_id is None:
                _hold(ghost, volume, ghost.managed[wish.pick % len(ghost.managed)])
        return True
    volume = there[wish.pick % len(there)]
    if wish.kind == "move":
        return _move(ghost, volume, wish.pick)
    VOLUME_EDITS[wish.kind](ghost, volume)
    return True


def _edit_cluster(ghost: Ghost, wish: Edit) -> bool:
    for cluster in ghost.sandbox.world.all(Cluster):
        if cluster.name == wish.name and cluster.state == "ready":
            return _call(ghost, "DELETE", f"/v1/postgres/{cluster.id}", None) is not None
    return False


def _edit_machine(ghost: Ghost, wish: Edit) -> bool:
    """Somebody suspends, starts or stops a machine, or the platform deploys it or loses what it kept."""
    before = ghost.power().get(wish.name)
    if _call(ghost, "POST", MACHINE_EDITS[wish.kind].format(wish), None) is None:
        return False
    if ghost.power()[wish.name] != before:
        _touch(ghost, wish.name, "power")
    return True


def _attach(ghost: Ghost, volume: Volume) -> None:
    if volume.attached_machine_id is None:
        _hold(ghost, volume, f"m{volume.id[-6:]}")


def _hold(ghost: Ghost, volume: Volume, machine: str) -> None:
    """Let `machine`, which may be a new one, hold `volume` as well."""
    known = ghost.machine(machine)
    body: dict[str, Any] = {"app": volume.app, "id": machine, "volumes": [*_held(ghost, machine), volume.id]}
    if known is not None and known.state in GONE_STATES:
        body["state"] = "started"
    if _call(ghost, "POST", "/_sandbox/machines", body) is not None:
        ghost.attached_at[volume.id] = ghost.timeline.time()
        _touch(ghost, volume.id, "attached_machine_id")


def _move(ghost: Ghost, volume: Volume, pick: int) -> bool:
    """Somebody replaces the machine of a volume: another one, which may be new, holds it from now on."""
    before = volume.attached_machine_id
    others = [id for id in (*ghost.managed, f"n{volume.id[-6:]}") if id != before]
    if before is None:
        return False
    left = [id for id in _held(ghost, before) if id != volume.id]
    _call(ghost, "POST", "/_sandbox/machines", {"app": volume.app, "id": before, "volumes": left})
    _hold(ghost, volume, others[pick % len(others)])
    return True


def _held(ghost: Ghost, machine: str) -> list[str]:
    return [each.id for each in ghost.sandbox.world.all(Volume) if each.attached_machine_id == machine]


def _detach(ghost: Ghost, volume: Volume) -> None:
    """Take the volume from its machine; where volumes stay bound for a while, destroy the machine."""
    machine = volume.attached_machine_id
    if machine is None:
        return
    if ghost.sandbox.world.switches["detach_lag_s"] and _held(ghost, machine) == [volume.id]:
        if machine in ghost.managed:
            return
        _call(ghost, "POST", f"/_sandbox/machines/{machine}/destroy", None)
    else:
        left = [id for id in _held(ghost, machine) if id != volume.id]
        _call(ghost, "POST", "/_sandbox/machines", {"app": volume.app, "id": machine, "volumes": left})
    _touch(ghost, volume.id, "attached_machine_id")


def _delete(ghost: Ghost, volume: Volume) -> None:
    _detach(ghost, volume)
    if _call(ghost, "DELETE", f"/v1/apps/{volume.app}/volumes/{volume.id}", None) is not None:
        _touch(ghost, volume.id, "state")


def _grow(ghost: Ghost, volume: Volume) -> None:
    _call(ghost, "PATCH", f"/_sandbox/world/volumes/{volume.id}", {"size_gb": volume.size_gb + 7})
    _touch(ghost, volume.id, "size_gb")


def _retention(ghost: Ghost, volume: Volume) -> None:
    days = volume.snapshot_retention % 60 + 1
    _call(ghost, "PATCH", f"/_sandbox/world/volumes/{volume.id}", {"snapshot_retention": days})
    _touch(ghost, volume.id, "snapshot_retention")


VOLUME_EDITS: Mapping[str, Callable[[Ghost, Volume], None]] = {
    "attach": _attach,
    "detach": _detach,
    "delete": _delete,
    "grow": _grow,
    "retention": _retention,
}


# What is done to machine `name` of `app`: paths. Some are the platform's own doing.
MACHINE_EDITS: Mapping[str, str] = {
    "suspend": "/v1/apps/{0.app}/machines/{0.name}/suspend",
    "start": "/v1/apps/{0.app}/machines/{0.name}/start",
    "stop": "/v1/apps/{0.app}/machines/{0.name}/stop",
    "deploy": "/_sandbox/machines/{0.name}/deploy",
    "lose_snapshot": "/_sandbox/machines/{0.name}/lose_snapshot",
}


def _touch(ghost: Ghost, id: str, *fields: str) -> None:
    ghost.touched.setdefault(id, []).append(Touch(ghost.timeline.time(), fields))


def _call(ghost: Ghost, method: str, path: str, body: Any) -> Any:
    """The answer's JSON; None when it was refused."""
    content = b"" if body is None else json.dumps(body).encode()
    request = Request(method, path, "", {"authorization": "Bearer sandbox"}, content)
    answer = ghost.sandbox.answer(request, again=True)  # counts towards no rate limit
    if answer.status >= 300:
        return None
    return answer.json() if answer.body else {}


# --- when asked ---


def put_right(history: "History") -> None:
    """The platform's troubles are over, and a person starts every machine that nobody wants to sleep."""
    ghost = history.ghost
    ghost.sandbox.world.switches |= {
        "cluster_create": "ok",
        "cluster_outcome": "ready",
        "snapshot_outcome": "created",
        "placement": "ok",
        "auto_extend_gb": 0,
        "detach_lag_s": 0,
    }
    for id, power in ghost.power().items():
        wanted = wanted_power(history.desired.resources, id)
        asleep = power == "suspended" and wanted not in AT_REST
        if asleep or (power == "stopped" and wanted != "stopped"):
            _call(ghost, "POST", f"/v1/apps/{_app_of(ghost, id)}/machines/{id}/start", None)
            ghost.last_disturbance_s = ghost.timeline.time()


def _app_of(ghost: Ghost, id: str) -> str:
    machine = ghost.machine(id)
    assert machine is not None
    return machine.app


async def _settle_unknown(history: "History") -> int:
    """Say what became of each lost call: the truth, as the platform's own pages would show it."""
    acts = 0
    for opened in history.ghost.open_intents():
        if opened.data["if_unknown"] == "repeat":
            continue
        await history.until(opened.at_s + SETTLE_S)
        made = opened.sending.made if opened.sending is not None else ""
        is_there = bool(made) and (history.ghost.alive(made) or not opened.creates)
        await history.resolve(opened.address, made if is_there else None)
        acts += 1
    return acts or await history.claim_untracked()


async def _confirm_inferred(history: "History") -> int:
    acts = 0
    for record in list(history.ghost.records.values()):
        if record.inferred and history.ghost.alive(record.id):
            await history.resolve(record.address, record.id)
            acts += 1
    return acts


async def _forget_missing(history: "History") -> int:
    """Drop the records of what is truly gone."""
    acts = 0
    for record in list(history.ghost.records.values()):
        if record.address.kind in ("Volume", "PostgresCluster") and not history.ghost.alive(record.id):
            await history.forget(record.address)
            acts += 1
    return acts


async def _remove_twins(history: "History") -> int:
    """Delete the objects of others that bear a name of ours."""
    ghost, acts = history.ghost, 0
    tracked = {record.id for record in ghost.records.values()}
    for volume in list(ghost.sandbox.world.all(Volume)):
        if volume.present and volume.id not in tracked and volume.id not in ghost.made:
            _delete(ghost, volume)
            acts += not volume.present
    return acts


async def _detach_leaving(history: "History") -> int:
    acts = 0
    for record in _leaving(history):
        volume = history.ghost.volume(record.id)
        if volume is not None and volume.attached_machine_id is not None:
            _detach(history.ghost, volume)
            acts += 1
    return acts


async def _forget_left(history: "History") -> int:
    """What came is not what left: drop the records of what left."""
    acts = 0
    for record in _leaving(history):
        await history.forget(record.address)
        acts += 1
    return acts


async def _accept_sizes(history: "History") -> int:
    """Write the sizes into the manifests that the volumes have grown to."""
    ghost, acts = history.ghost, 0
    for document in history.manifests:
        if document["kind"] != "Volume" or "size_gb" not in document["spec"]:
            continue
        wanted = document["spec"]["size_gb"]
        largest = wanted["max"] if isinstance(wanted, dict) else wanted
        live = max((volume.size_gb for volume in _volumes_of(ghost, document)), default=0)
        if live > largest:
            document["spec"]["size_gb"] = {"min": 1, "max": live}
            acts += 1
    return acts


async def _accept_clusters(history: "History") -> int:
    """Take back what the platform cannot change of a cluster."""
    ghost, acts = history.ghost, 0
    for document in history.manifests:
        if document["kind"] == "PostgresCluster":
            record = ghost.records.get(Address("PostgresCluster", document["metadata"]["name"]))
            cluster = ghost.cluster(record.id) if record is not None else None
            if cluster is not None and document["spec"]["plan"] != cluster.plan:
                document["spec"]["plan"] = cluster.plan
                acts += 1
    return acts


async def _remove_failed_clusters(history: "History") -> int:
    acts = 0
    for record in list(history.ghost.records.values()):
        cluster = history.ghost.cluster(record.id)
        if cluster is not None and cluster.state in ("failed", "error"):
            _call(history.ghost, "DELETE", f"/v1/postgres/{cluster.id}", None)
            await history.forget(record.address)
            acts += 1
    return acts


def _leaving(history: "History") -> Iterator[StateRecord]:
    wanted = {resource.address for resource in history.desired.resources}
    for record in list(history.ghost.records.values()):
        if record.address not in wanted:
            yield record


def _volumes_of(ghost: Ghost, document: Mapping[str, Any]) -> Iterator[Volume]:
    """The volumes that bear the document's name: those of ours, and those that it would adopt."""
    metadata = document["metadata"]
    for volume in ghost.sandbox.world.all(Volume):
        if volume.present and (volume.app, volume.name) == (metadata["app"], metadata["name"]):
            yield volume


# What a person does about each question. Anything else that stops a run is not a decision but a failure.
ANSWERS: Mapping[str, Any] = {
    "unknown-outcome": _settle_unknown,
    "delete-inferred": _confirm_inferred,
    "object-missing": _forget_missing,
    "object-destroyed": _forget_missing,
    "many-missing": _forget_missing,
    "ambiguous-match": _remove_twins,
    "volume-attached": _detach_leaving,
    "volume-shrink": _accept_sizes,
    "renamed": _forget_left,
    "immutable-field": _accept_clusters,
    "cluster-failed": _remove_failed_clusters,
}
