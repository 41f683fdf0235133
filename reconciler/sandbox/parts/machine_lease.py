"""Leases of machines: while one holds, only calls that send its nonce change the power of the machine.

Source: what clients written by others send and read; the API document does not show them.
"""

from typing import Any

from reconciler.sandbox.exchange import Refusal, Request, Response, read, reply
from reconciler.sandbox.part import Part, Routes
from reconciler.sandbox.parts.app import required_in_app
from reconciler.sandbox.world import Machine, World
from reconciler.services.machines.wire import machine as wires

NONCE = "fly-machine-lease-nonce"
_SHORTEST_S, _LONGEST_S = 1, 24 * 3600


_LEASE = "/v1/apps/{app_name}/machines/{machine_id}/lease"
route = Routes("machine_lease")


@route.extended("GET", _LEASE, "Get the lease of a machine", wires.MachineLease)
def get(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """The lease of the machine. 404 when none holds."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    if not _is_held(world, machine):
        raise Refusal(404, "no lease found", "not_found")
    return reply(_wire(machine))


@route.extended(
    "POST",
    _LEASE,
    "Take or renew the lease of a machine",
    wires.MachineLease,
    statuses=(201,),
    errors=(409,),
    body=wires.MachineLeaseRequest,
    query={"ttl": {"type": "integer", "minimum": _SHORTEST_S, "maximum": _LONGEST_S}},
    example={"ttl": 30, "description": "a deploy"},
)
def take(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """`ttl` in seconds, in the query or in the body. The nonce of the lease that holds renews it."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    body, asked = request.object(), request.parameter("ttl")
    if asked is not None:
        body["ttl"] = int(asked) if asked.isdecimal() else asked
    wanted = read(body, wires.MachineLeaseRequest)
    check(world, request, machine)
    if not _is_held(world, machine):
        machine.lease_nonce = world.new_id(12)
    machine.lease_until = world.now + (wanted.ttl or 60)
    machine.lease_description = wanted.description or ""
    world.put(machine)
    return reply(_wire(machine), 201)


@route.extended("DELETE", _LEASE, "Release the lease of a machine", wires.MachineAccepted, errors=(409,))
def release(world: World, request: Request, app_name: str, machine_id: str) -> Response:
    """End the lease; 409 for another client than its holder."""
    machine = required_in_app(world, Machine, app_name, machine_id)
    check(world, request, machine)
    if machine.lease_nonce:
        machine.lease_nonce, machine.lease_until = "", 0.0
        world.put(machine)
    return reply({"ok": True})


def check(world: World, request: Request, machine: Machine) -> None:
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


PART = Part(routes=route.found)
