"""The control verbs under `/_sandbox/`: what a test, or a person's hand, does to the world. No token.

Handlers get the whole sandbox, not the world alone: clock, faults and log belong to it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.sandbox import faults as fault_list
from reconciler.sandbox import fields, switches
from reconciler.sandbox.catalog import SEEDS
from reconciler.sandbox.clock import LATEST_S, rfc3339
from reconciler.sandbox.controlled import Controlled
from reconciler.sandbox.exchange import Refusal, Request, Response, reply
from reconciler.sandbox.page import show
from reconciler.sandbox.parts import (
    app,
    cluster,
    delivery,
    machine,
    machine_power,
    provider,
    volume,
)
from reconciler.sandbox.routing import Routes
from reconciler.sandbox.world import Machine, T, World
from reconciler.services.machines.wire import machine as wires

PREFIX = "/_sandbox/"
_PAGE = "/"
_LONGEST_NUMBER = 18  # digits that the database counts to
_FOREVER_S = 100 * 365 * 24 * 3600


def owns(path: str) -> bool:
    """Whether a request for `path` is for a control verb: no token, no faults, no line in the log."""
    return path == _PAGE or path.startswith(PREFIX)


route = Routes("control", guard="control")


@route(
    "POST",
    PREFIX + "apps",
    "Register an app",
    app.AppRegistered,
    body=app.AppRegistration,
    gives={"app_name": "/name", "app": "/name", "org_slug": "/org_slug"},
    example={"name": "shop", "org_slug": "acme", "primary_region": "ams"},
)
def post_app(sandbox: Controlled, request: Request) -> Response:
    return reply(app.register_body(sandbox.world, request.object()))


@route(
    "POST",
    PREFIX + "machines",
    "Register a machine",
    wires.Machine,
    errors=(404,),
    body=machine.MachineRegistration,
    gives={"machine_id": "/id", "app_name": "/app"},
    example={"app": "shop", "memory_mb": 512},
)
def post_machine(sandbox: Controlled, request: Request) -> Response:
    return reply(machine.register_body(sandbox.world, request.object()))


@route("POST", PREFIX + "providers")
def post_provider(sandbox: Controlled, request: Request) -> Response:
    return reply(provider.wire(provider.register(sandbox.world, request.object())))


@route("POST", PREFIX + "users")
def post_user(sandbox: Controlled, request: Request) -> Response:
    return reply(provider.user_wire(provider.register_user(sandbox.world, request.object())))


@route("POST", PREFIX + "resources")
def post_resource(sandbox: Controlled, request: Request) -> Response:
    return reply(provider.resource_wire(provider.register_resource(sandbox.world, request.object())))


@route("GET", PREFIX + "deliveries")
def get_deliveries(sandbox: Controlled, request: Request) -> Response:
    return reply([delivery.wire(each) for each in sandbox.world.all(delivery.Delivery)])


@route("POST", PREFIX + "machines/{machine_id}/{verb}")
def post_machine_verb(sandbox: Controlled, request: Request, machine_id: str, verb: str) -> Response:
    """What the platform or a person does to a machine, past the token and the profile."""
    thing = _required(sandbox, Machine, machine_id)
    if verb not in machine_power.BY_HAND:
        raise Refusal(404, f"`{verb}` is none of {', '.join(machine_power.BY_HAND)}")
    machine_power.BY_HAND[verb](sandbox.world, thing)
    return reply(machine.world_wire(sandbox.world, thing))


@route("GET", PREFIX + "clock")
def get_clock(sandbox: Controlled, request: Request) -> Response:
    clock = sandbox.clock
    return reply({"mode": clock.setting, "rate": clock.rate, "now": rfc3339(sandbox.world.now, 6)})


@route("POST", PREFIX + "clock")
def post_clock(sandbox: Controlled, request: Request) -> Response:
    seconds = request.object().get("advance_s")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= _FOREVER_S:
        raise fields.refused("advance_s", "must be a number of seconds, at least 0")
    if sandbox.clock.now() + seconds > LATEST_S:
        raise fields.refused("advance_s", f"must not go past {rfc3339(LATEST_S)}")
    sandbox.clock.advance(seconds)
    sandbox.settle()
    return get_clock(sandbox, request)


@route("POST", PREFIX + "faults")
def post_faults(sandbox: Controlled, request: Request) -> Response:
    sandbox.faults.script(fault_list.read(request.json()), sandbox.lists)
    return get_faults(sandbox, request)


@route("GET", _PAGE)
def get_page(sandbox: Controlled, request: Request) -> Response:
    return show(sandbox)


@route("GET", PREFIX + "faults")
def get_faults(sandbox: Controlled, request: Request) -> Response:
    return reply(sandbox.faults.wire())


@route("DELETE", PREFIX + "faults")
def delete_faults(sandbox: Controlled, request: Request) -> Response:
    sandbox.faults.clear()
    return reply([])


@route("GET", PREFIX + "log")
def get_log(sandbox: Controlled, request: Request) -> Response:
    since = request.parameter("since") or "0"
    if not since.isdecimal() or len(since) > _LONGEST_NUMBER:
        raise fields.refused("since", "must be a sequence number")
    shown = ("at", "method", "path", "status", "effect")
    bodies = request.parameter("bodies") == "1"
    return reply(
        [
            {
                "seq": seq,
                **{name: getattr(entry, name) for name in shown},
                **({"body": json.loads(entry.body) if entry.body else None} if bodies else {}),
            }
            for seq, entry in sandbox.database.log(int(since))
        ]
    )


@route("GET", PREFIX + "world")
def get_world(sandbox: Controlled, request: Request) -> Response:
    world = sandbox.world
    return reply({each.name: [each.shown(world, one) for one in world.all(each.cls)] for each in SEEDS})


@route("PATCH", PREFIX + "world/volumes/{volume_id}")
def patch_volume(sandbox: Controlled, request: Request, volume_id: str) -> Response:
    """A human's edit, past every rule of the API."""
    world, thing = sandbox.world, _required(sandbox, volume.Volume, volume_id)
    checks: Mapping[str, _Check] = {
        "region": fields.required_text,
        "zone": fields.required_text,
        "size_gb": _positive,
        "encrypted": fields.flag,
        "fstype": fields.required_text,
        "snapshot_retention": _positive,
        "auto_backup_enabled": fields.flag,
        "attached_machine_id": fields.text,
        "attached_alloc_id": fields.text,
        "host_dedication_key": fields.text,
        "state": fields.required_text,
        "blocks_free": _count,
        "blocks_avail": _count,
    }
    edits = _edits(request, checks, nullable=("attached_machine_id", "attached_alloc_id"))
    _edit(world, thing, edits)
    if "attached_machine_id" in edits:
        machine.mounted_by_hand(world, thing)
    return reply(volume.world_wire(world, thing))


@route("PATCH", PREFIX + "world/clusters/{id}")
def patch_cluster(sandbox: Controlled, request: Request, id: str) -> Response:
    """A human's edit, past every rule of the API."""
    world, thing = sandbox.world, _required(sandbox, cluster.Cluster, id)
    checks: Mapping[str, _Check] = {
        "name": fields.required_text,
        "region": fields.required_text,
        "plan": lambda body, name: fields.choice(body, name, tuple(cluster.PLANS)),
        "pg_major_version": fields.required_text,
        "disk_size_gb": _positive,
        "replicas": _positive,
        "postgis_enabled": fields.flag,
        "status": fields.required_text,
        "attached_apps": _attached_apps,
    }
    edits = _edits(request, checks)
    if "attached_apps" in edits:
        edits["attached_apps"] = _attached_apps(edits, "attached_apps")
    if "status" in edits:
        edits["state"] = edits.pop("status")
    _edit(world, thing, edits)
    return reply(cluster.wire(world, thing))


@route("GET", PREFIX + "switches")
def get_switches(sandbox: Controlled, request: Request) -> Response:
    return reply(switches.described(sandbox.world.switches, extended=sandbox.extended))


@route("POST", PREFIX + "switches")
def post_switches(sandbox: Controlled, request: Request) -> Response:
    sandbox.set_switches(request.object())
    return reply(sandbox.world.switches)


def _required(sandbox: Controlled, cls: type[T], id: str) -> T:
    thing = sandbox.world.find(cls, id)
    if thing is None:
        raise Refusal(404, f"{cls.kind} not found")
    return thing


_Check = Callable[[Mapping[str, Any], str], Any]


def _edits(request: Request, checks: Mapping[str, _Check], nullable: Sequence[str] = ()) -> dict[str, Any]:
    """The checked fields of an edit. Raises Refusal 422 for one that cannot be edited, or null."""
    body = request.json()
    if not isinstance(body, dict):
        raise Refusal(400, "the request body must be a JSON object")
    for name, value in body.items():
        if name not in checks:
            raise Refusal(422, f"{name} cannot be edited; these can: {', '.join(checks)}")
        if value is None and name not in nullable:
            raise fields.refused(name, "must not be null")
        checks[name](body, name)
    return dict(body)


def _edit(world: World, thing: volume.Volume | cluster.Cluster, edits: dict[str, Any]) -> None:
    state = edits.pop("state", None)
    for name, value in edits.items():
        setattr(thing, name, value)
    if state is None:
        world.put(thing)
    else:
        world.enter(thing, state)


def _attached_apps(body: Mapping[str, Any], name: str) -> list[str]:
    """Names, from `[{name}]` as answers show them. Raises Refusal 422."""
    apps = body[name]
    if not isinstance(apps, list):
        raise fields.refused(name, "must be an array of objects with a name")
    return [fields.required_text(each if isinstance(each, dict) else {}, "name") for each in apps]


def _count(body: Mapping[str, Any], name: str) -> int | None:
    return fields.whole(body, name, 0)


def _positive(body: Mapping[str, Any], name: str) -> int | None:
    return fields.whole(body, name, 1)
