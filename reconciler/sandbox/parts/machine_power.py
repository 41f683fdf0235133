"""Suspend, resume, stop and restart of machines, waiting for it, and leases.

While a lease of a machine holds, only calls that send its nonce change its power. What clients written by
others send and read shows leases; the API document does not.

Calls are accepted at once; the state that they ask for comes later, by a transition. A suspended machine with
a saved memory resumes; every other start is cold: it boots, and uses all space of its volumes. A stop, a
deploy, a migration or maintenance loses the memory. Only a machine that runs, has no swap and no schedule, at
most 2 GB of memory and a recent configuration can be suspended.

Source: platform API, 3.3 and 4.4; platform notes, "Machines".
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from reconciler.sandbox.clock import YEAR_ONE_S
from reconciler.sandbox.exchange import Refusal, Request, Response, precondition, read, refused, reply
from reconciler.sandbox.part import Part, Routes
from reconciler.sandbox.parts.app import required_in_app
from reconciler.sandbox.parts.machine import boot, mounted, shown_state
from reconciler.sandbox.world import Machine, Transition, World
from reconciler.services.machines.wire import machine as wires
from reconciler.services.machines.wire.machine import RUNNING

NONCE = "fly-machine-lease-nonce"
_LONGEST_S = 24 * 3600


_LEASE = "/v1/apps/{app_name}/machines/{machine_id}/lease"
lease = Routes("machine_lease")


@lease.extended("GET", _LEASE, "Get the lease of a machine", wires.MachineLease)
def get(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """The lease of the machine. 404 when none holds."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    if not _is_held(world, machine):
        raise Refusal(404, "no lease found", "not_found")
    return reply(_wire(machine))


@lease.extended(
    "POST",
    _LEASE,
    "Take or renew the lease of a machine",
    wires.MachineLease,
    statuses=(201,),
    errors=(409,),
    body=wires.MachineLeaseRequest,
    query={"ttl": {"type": "integer", "minimum": 1, "maximum": _LONGEST_S}},
    example={"ttl": 30, "description": "a deploy"},
)
def take(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """`ttl` in seconds, in the query or in the body. The nonce of the lease that holds renews it."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    body, asked = request.object(), request.seconds("ttl", _LONGEST_S)
    wanted = read(body if asked is None else body | {"ttl": asked}, wires.MachineLeaseRequest)
    check_lease(world, request, machine)
    if not _is_held(world, machine):
        machine.lease_nonce = world.new_id(12)
    machine.lease_until = world.now + (wanted.ttl or 60)
    machine.lease_description = wanted.description or ""
    world.put(machine)
    return reply(_wire(machine), 201)


@lease.extended("DELETE", _LEASE, "Release the lease of a machine", wires.MachineAccepted, errors=(409,))
def release(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """End the lease; 409 for another client than its holder."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    check_lease(world, request, machine)
    if machine.lease_nonce:
        machine.lease_nonce, machine.lease_until = "", 0.0
        world.put(machine)
    return reply({"ok": True})


def check_lease(world: World, request: Request, machine: Machine) -> None:
    """Raises Refusal 409 where another holds the lease of the machine."""
    if _is_held(world, machine) and request.headers.get(NONCE) != machine.lease_nonce:
        raise Refusal(409, f"machine {machine.id} has a lease of another client", "aborted")


def _is_held(world: World, machine: Machine) -> bool:
    return bool(machine.lease_nonce) and world.now < machine.lease_until


def _wire(machine: Machine) -> dict[str, Any]:
    data = {
        "nonce": machine.lease_nonce,
        "expires_at": int(machine.lease_until),
        "owner": "sandbox",
        "description": machine.lease_description,
        "version": machine.instance_id,
    }
    return {"status": "success", "data": data}


LARGEST_MB = 2048
UPDATED_SINCE = datetime(2024, 6, 20, 20, tzinfo=UTC).timestamp()
LONGEST_WAIT_S = 60
_WAITED_FOR = (*RUNNING, "suspended", "stopped", "destroyed")
_STARTABLE = ("created", "stopped", "suspended", "suspending", "failed")
_STOPPABLE = (*RUNNING, "starting", "suspending", "suspended", "failed")


_MACHINE = "/v1/apps/{app_name}/machines/{machine_id}"
route = Routes("machine_power", errors=(409, 412))


@route("POST", _MACHINE + "/suspend", "Suspend a machine", wires.MachineAccepted)
def suspend(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """Begin to save the memory of a machine that runs (switches suspend_repeated, suspend_refusal)."""
    machine = _free(world, request, app_name, machine_id)
    if machine.state in ("suspending", "suspended") and world.switches["suspend_repeated"] == 200:
        return _accepted()
    _require(machine, RUNNING, "suspend")
    rule = _broken_rule(machine)
    if rule:
        named = world.switches["suspend_refusal"] == "rule"
        raise precondition(rule if named else "machine cannot be suspended")
    world.enter(machine, "suspending", lasts_s=world.switches["suspending_s"])
    return _accepted()


@route(
    "GET",
    _MACHINE + "/wait",
    "Wait for a state of a machine",
    wires.MachineWaited,
    errors=(408, 422),
    query={
        "state": {
            "type": "array",
            "items": {"type": "string", "enum": list(_WAITED_FOR)},
            "minItems": 1,
            "default": ["started"],
        },
        "timeout": {"type": "integer", "minimum": 1, "maximum": LONGEST_WAIT_S, "default": LONGEST_WAIT_S},
    },
)
def wait(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """200 in a wanted state, else the 408 that ends the wait when its time has passed.

    `state` is `started` unless it is given; given repeatedly, any of them is wanted.
    `timeout` are whole seconds from 1 to 60, which is the default.
    """
    machine = required_in_app(world, Machine, app_name, machine_id)
    wanted = request.parameters("state") or ["started"]
    if not set(wanted) <= set(_WAITED_FOR):
        raise refused("state", f"must be one of {', '.join(_WAITED_FOR)}")
    timeout_s = request.seconds("timeout", LONGEST_WAIT_S) or LONGEST_WAIT_S
    state = shown_state(world, machine)
    if machine.state in wanted or (machine.state in RUNNING and not set(wanted).isdisjoint(RUNNING)):
        return reply({"ok": True, "state": state})
    problem = f"machine failed to reach desired state, {' or '.join(wanted)}, currently {state}"
    answer = reply({"error": f"deadline_exceeded: {problem}", "status": "deadline_exceeded"}, 408)
    answer.again_s = timeout_s
    return answer


@route("POST", _MACHINE + "/start", "Start or resume a machine", wires.MachineStarted)
def start(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """Resume, or start cold without a saved memory; a start during `suspending` cancels that."""
    machine = _free(world, request, app_name, machine_id)
    answer = {
        "previous_state": shown_state(world, machine),
        "migrated": machine.moved,
        "new_host": machine.host if machine.moved else "",
    }
    if machine.state not in (*RUNNING, "starting") or world.switches["start_repeated"] == 412:
        _require(machine, _STARTABLE, "start")
        world.enter(machine, "starting")
    if world.switches["start_reply"] == "previous_state":
        return reply({"previous_state": answer["previous_state"]})
    return reply(answer)


@route.extended(
    "POST",
    _MACHINE + "/stop",
    "Stop a machine",
    wires.MachineAccepted,
    body=wires.MachineStop,
    example={"signal": "SIGTERM", "timeout": 30},
)
def stop(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """Begin to stop a machine; its memory is lost. A second stop changes nothing."""
    machine = _free(world, request, app_name, machine_id)
    request.read(wires.MachineStop)
    _stop(world, machine)
    return _accepted()


@route.extended("POST", _MACHINE + "/restart", "Restart a machine", wires.MachineAccepted)
def restart(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """Begin to boot a machine that runs again, with an empty memory (switch restart_repeated)."""
    _restart(world, _free(world, request, app_name, machine_id))
    return _accepted()


def _free(world: World, request: Request, app_name: str, machine_id: str) -> Machine:
    """The machine, unless another client has its lease. Raises Refusal 404, 409."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    check_lease(world, request, machine)
    return machine


def _stop(world: World, machine: Machine) -> None:
    if machine.state not in ("stopped", "stopping"):
        _require(machine, _STOPPABLE, "stop")
        machine.memory_kept = False
        world.enter(machine, "stopping")


def _restart(world: World, machine: Machine) -> None:
    """Begin to boot the machine. A second restart changes nothing, or is refused (restart_repeated)."""
    booting = machine.state in ("restarting", "updating", "starting") and not machine.memory_kept
    if booting and world.switches["restart_repeated"] == 200:
        return
    _require(machine, RUNNING, "restart")
    machine.memory_kept = False
    world.enter(machine, "restarting")


def _lose_memory(world: World, machine: Machine, state: str) -> None:
    """A machine that runs boots again, by way of `state`; one that does not will boot when it is started."""
    machine.memory_kept = False
    if machine.state in (*RUNNING, "starting"):
        world.enter(machine, state)
    else:
        world.put(machine)


def _deploy(world: World, machine: Machine) -> None:
    machine.instance_id = world.new_id(26)
    machine.updated_at = world.now
    _lose_memory(world, machine, "updating")


def _migrate(world: World, machine: Machine) -> None:
    machine.host = world.new_id(8)
    machine.moved = True
    _lose_memory(world, machine, "restarting")


def _crash(world: World, machine: Machine) -> None:
    """End the program of the machine; it is not started again."""
    _require(machine, (*RUNNING, "starting"), "crash")
    machine.memory_kept = False
    world.enter(machine, "failed")


def _lose_snapshot(world: World, machine: Machine) -> None:
    _require(machine, ("suspending", "suspended"), "lose the snapshot of")
    machine.memory_kept = False
    world.put(machine)


def _destroy(world: World, machine: Machine) -> None:
    """Its volumes stay bound to it for a while (switch detach_lag_s). Source: platform notes, "Volumes"."""
    machine.memory_kept = False
    world.enter(machine, "destroying")


# What the platform or a person does to a machine, by the last part of the control verb's path.
BY_HAND: Mapping[str, Callable[[World, Machine], None]] = {
    "stop": _stop,
    "restart": _restart,
    "deploy": _deploy,
    "migrate": _migrate,
    "lose_snapshot": _lose_snapshot,
    "maintenance": partial(_lose_memory, state="restarting"),  # on its host, where it stays
    "crash": _crash,
    "destroy": _destroy,
}


def _broken_rule(machine: Machine) -> str:
    """The rule that forbids to suspend it, "" for none. A year-1 `updated_at` is not known and breaks none.

    Source: platform API, 3.3 and 8.
    """
    if machine.memory_mb > LARGEST_MB:
        return f"machine memory of {machine.memory_mb} MB is above {LARGEST_MB} MB, so it cannot be suspended"
    if machine.swap_size_mb:
        return "machine has swap, so it cannot be suspended"
    if machine.schedule:
        return "machine has a schedule, so it cannot be suspended"
    if YEAR_ONE_S < machine.updated_at < UPDATED_SINCE:
        return "machine was last updated before 2024-06-20 20:00 UTC, so it cannot be suspended"
    return ""


def _require(machine: Machine, states: Sequence[str], verb: str) -> None:
    if machine.state not in states:
        raise precondition(f"unable to {verb} machine from current state: '{machine.state}'")


def _accepted() -> Response:
    return reply({"ok": True})


def _finish_starting(world: World, machine: Machine, at: float) -> None:
    if not machine.memory_kept:
        boot(world, machine, at)
    world.enter(machine, "started", at)


def _finish_destroying(world: World, machine: Machine, at: float) -> None:
    world.enter(machine, "destroyed", at, lasts_s=world.switches["detach_lag_s"])


def _let_go(world: World, machine: Machine, at: float) -> None:
    for volume in mounted(world, machine):
        volume.attached_machine_id = None
        world.put(volume)


PART = Part(
    routes=[*lease.found, *route.found],
    transitions={
        ("machine", "suspending"): Transition(10, "suspended"),
        ("machine", "starting"): Transition(2, _finish_starting),
        ("machine", "stopping"): Transition(3, "stopped"),
        ("machine", "restarting"): Transition(3, "starting"),
        ("machine", "updating"): Transition(5, "starting"),
        ("machine", "destroying"): Transition(2, _finish_destroying),
        ("machine", "destroyed"): Transition(0, _let_go),
    },
)
