"""The control verbs under `/_sandbox/`: what a test, or a person's hand, does to the world. No token.

Handlers get the whole sandbox, not the world alone: clock, faults and log belong to it.

The page at `/` shows the world, the last requests and the clock to a person; it needs no script. A section of
it is a part of the world, by the `columns` of its seed. Values are escaped by the template.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

from msgspec.structs import asdict
from pydantic import Field, PlainSerializer

from reconciler.sandbox import faults as fault_list
from reconciler.sandbox import switches
from reconciler.sandbox.catalog import SEEDS
from reconciler.sandbox.clock import LATEST_S, WorldClock, rfc3339
from reconciler.sandbox.database import Database
from reconciler.sandbox.exchange import Refusal, Request, Response, page, read, refused, reply
from reconciler.sandbox.faults import Faults
from reconciler.sandbox.part import Columns, Count, Item, Positive, Routes, Seed, Text
from reconciler.sandbox.parts import app, cluster, delivery, machine, machine_power, provider, volume
from reconciler.sandbox.parts.delivery import Delivery
from reconciler.sandbox.world import Machine, T, Thing, World
from reconciler.services.machines.wire import machine as wires

MOST_ROWS = 100
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "cache-control": "no-store",
}
_DELIVERIES: Columns = (
    ("at", lambda world, delivery: rfc3339(delivery.made_at)),
    "provider",
    ("what", lambda world, delivery: delivery.type or delivery.purpose),
    "about",
    "state",
    "attempts",
    ("answer", lambda world, delivery: delivery.status or delivery.problem),
)


class Controlled(Protocol):
    """What control verbs and the page see of `core.Sandbox`: they change the world, and ask it nothing."""

    world: World
    clock: WorldClock
    faults: Faults
    database: Database | None
    extended: bool
    strict: bool

    def advance(self, seconds: float) -> None:
        """See `core.Sandbox.advance`."""

    def set_switches(self, wanted: Mapping[str, Any]) -> None:
        """See `core.Sandbox.set_switches`."""

    def lists(self, glob: str) -> dict[str, Any]:
        """See `core.Sandbox.lists`."""


class Row(NamedTuple):
    """A row of a table. `changed`: the request changed the world, and the row is marked."""

    cells: Sequence[Any]
    changed: bool = False


class Section(NamedTuple):
    """A table under its heading. `total`: how many rows there would be without the limit."""

    name: str
    titles: Sequence[str]
    rows: Sequence[Row]
    total: int


def _things(world: World, name: str, cls: type[Thing], columns: Columns) -> Section:
    things = list(world.all(cls))
    titled = [column if isinstance(column, tuple) else (column, column) for column in columns]
    rows = [
        Row([getattr(thing, of) if isinstance(of, str) else of(world, thing) for _, of in titled])
        for thing in things[-MOST_ROWS:]
    ]
    return Section(name, [title for title, _ in titled], rows, len(things))


def _switches(sandbox: Controlled) -> Section:
    """The switches that are not at their default."""
    moved = [
        Row((name, value, switches.default_of(switches.SWITCHES[name], extended=sandbox.extended)))
        for name, value in sandbox.world.switches.items()
        if value != switches.default_of(switches.SWITCHES[name], extended=sandbox.extended)
    ]
    return Section("Changed switches", ("name", "value", "default"), moved, len(moved))


def _faults(sandbox: Controlled) -> Section:
    pending, titles = sandbox.faults.wire(), ("action", "method", "path", "times", "probability")
    rows = [
        Row(["all" if fault[title] is None else fault[title] for title in titles])
        for fault in pending[:MOST_ROWS]
    ]
    return Section("Active faults", titles, rows, len(pending))


def _requests(sandbox: Controlled) -> Section:
    """The newest first; those that changed the world are marked."""
    total, last = sandbox.database.tail(MOST_ROWS) if sandbox.database else (0, ())
    rows = [
        Row((seq, entry.at, entry.method, entry.path, entry.status or "no answer"), entry.effect)
        for seq, entry in last
    ]
    return Section("Latest requests", ("number", "at", "method", "path", "status"), rows, total)


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
    """Register an app, or change what is given of one; or only an organization."""
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
    """Register a machine, or change what is given of one."""
    return reply(machine.register_body(sandbox.world, request.object()))


for _seed in provider.PART.seeds:

    @route("POST", PREFIX + _seed.name)
    def post_thing(sandbox: Controlled, request: Request, seed: Seed = _seed) -> Response:
        """Register a provider or a user who can sign in, or report a resource; or change what is given."""
        return reply(seed.shown(sandbox.world, seed.plant(sandbox.world, request.read(seed.form))))


@route("GET", PREFIX + "deliveries")
def get_deliveries(sandbox: Controlled, request: Request) -> Response:
    """The events and questions for providers, sent or waiting, oldest first."""
    return reply([delivery.wire(one) for one in sandbox.world.all(delivery.Delivery)])


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
    """The setting and rate of the clock, and the time of the world."""
    clock = sandbox.clock
    return reply({"mode": clock.setting, "rate": clock.rate, "now": rfc3339(sandbox.world.now, 6)})


class ClockChange(Item):
    """How far to move the clock on, in seconds of the world."""

    advance_s: float = Field(ge=0, le=_FOREVER_S)


@route("POST", PREFIX + "clock")
def post_clock(sandbox: Controlled, request: Request) -> Response:
    """Move the clock on; everything that falls due happens at once. Refused past the last date."""
    seconds = request.read(ClockChange).advance_s
    if sandbox.clock.now() + seconds > LATEST_S:
        raise refused("advance_s", f"must not go past {rfc3339(LATEST_S)}")
    sandbox.advance(seconds)
    return get_clock(sandbox, request)


@route("POST", PREFIX + "faults")
def post_faults(sandbox: Controlled, request: Request) -> Response:
    """Add a script of faults; the answer lists all that are pending."""
    sandbox.faults.script(fault_list.read(request.json()), sandbox.lists)
    return get_faults(sandbox, request)


@route("GET", _PAGE)
def get_page(sandbox: Controlled, request: Request) -> Response:
    """The page for people: everything of the world, at most `MOST_ROWS` rows a table."""
    world = sandbox.world
    return page(
        "page.html",
        _HEADERS,
        now=rfc3339(world.now),
        clock=sandbox.clock.setting,
        profile="extended" if sandbox.extended else "documented",
        strict=sandbox.strict,
        sections=[
            *(_things(world, seed.name.capitalize(), seed.cls, seed.columns) for seed in SEEDS),
            _things(world, "Deliveries", Delivery, _DELIVERIES),
            _switches(sandbox),
            _faults(sandbox),
            _requests(sandbox),
        ],
    )


@route("GET", PREFIX + "faults")
def get_faults(sandbox: Controlled, request: Request) -> Response:
    """The faults that are not used up yet."""
    return reply(sandbox.faults.wire())


@route("DELETE", PREFIX + "faults")
def delete_faults(sandbox: Controlled, request: Request) -> Response:
    """Drop all faults that are not used up yet."""
    sandbox.faults.pending.clear()
    return reply([])


@route("GET", PREFIX + "log")
def get_log(sandbox: Controlled, request: Request) -> Response:
    """The requests to the platform after `since`; with `bodies=1` their bodies, secrets masked."""
    since = request.parameter("since") or "0"
    if not since.isdecimal() or len(since) > _LONGEST_NUMBER:
        raise refused("since", "must be a sequence number")
    entries = sandbox.database.log(int(since)) if sandbox.database else ()
    lines = [{"seq": seq, **asdict(entry)} for seq, entry in entries]
    for line in lines:
        body = line.pop("body")
        if request.parameter("bodies") == "1":
            line["body"] = json.loads(body) if body else None
    return reply(lines)


@route("GET", PREFIX + "world")
def get_world(sandbox: Controlled, request: Request) -> Response:
    """Every thing of the world by part: the seed of another sandbox."""
    world = sandbox.world
    return reply({seed.name: [seed.shown(world, thing) for thing in world.all(seed.cls)] for seed in SEEDS})


class VolumeEdit(Item):
    """The fields of a volume that a person may edit; null for those that may have no value."""

    region: Text = ""
    zone: Text = ""
    size_gb: Positive = 1
    encrypted: bool = True
    fstype: Text = ""
    snapshot_retention: Positive = 1
    auto_backup_enabled: bool = True
    attached_machine_id: str | None = None
    attached_alloc_id: str | None = None
    host_dedication_key: str = ""
    state: Text = ""
    blocks: Count | None = None
    blocks_free: Count = 0
    blocks_avail: Count = 0


@route("PATCH", PREFIX + "world/volumes/{volume_id}")
def patch_volume(sandbox: Controlled, request: Request, volume_id: str) -> Response:
    """A human's edit, past every rule of the API."""
    thing = _edited(sandbox, request, volume.Volume, volume_id, VolumeEdit, "state")
    if "attached_machine_id" in request.json():
        machine.mounted_by_hand(sandbox.world, thing)
    return reply(volume.world_wire(sandbox.world, thing))


def _names(apps: list[cluster.AttachedAppItem]) -> list[str]:
    return [app.name for app in apps]


class ClusterEdit(Item):
    """The fields of a cluster that a person may edit."""

    name: Text = ""
    region: Text = ""
    plan: cluster.Plan = ""
    pg_major_version: Text = ""
    disk_size_gb: Positive = 1
    replicas: Positive = 1
    postgis_enabled: bool = False
    status: Text = ""
    attached_apps: Annotated[list[cluster.AttachedAppItem], PlainSerializer(_names)] = Field(
        default_factory=list
    )


@route("PATCH", PREFIX + "world/clusters/{id}")
def patch_cluster(sandbox: Controlled, request: Request, id: str) -> Response:
    """A human's edit, past every rule of the API."""
    thing = _edited(sandbox, request, cluster.Cluster, id, ClusterEdit, "status")
    if thing.state == "deleted":
        cluster.remove_server(sandbox.world, thing)
    return reply(cluster.wire(sandbox.world, thing))


@route("POST", PREFIX + "world/clusters/{id}/backups")
def post_backup(sandbox: Controlled, request: Request, id: str) -> Response:
    """The full backup that the platform makes now. Its id is the second, so each has one at most."""
    thing = _required(sandbox, cluster.Cluster, id)
    return reply(cluster.back_up(sandbox.world, thing, sandbox.world.now))


@route("GET", PREFIX + "switches")
def get_switches(sandbox: Controlled, request: Request) -> Response:
    """Every switch with its value, its default and what is expected of clients."""
    return reply(switches.described(sandbox.world.switches, extended=sandbox.extended))


@route("POST", PREFIX + "switches")
def post_switches(sandbox: Controlled, request: Request) -> Response:
    """Set switches. Refused as a whole when one does not exist."""
    sandbox.set_switches(request.object())
    return reply(sandbox.world.switches)


def _required(sandbox: Controlled, cls: type[T], id: str) -> T:
    thing = sandbox.world.find(cls, id)
    if thing is None:
        raise Refusal(404, f"{cls.kind} not found")
    return thing


def _edited(
    sandbox: Controlled, request: Request, cls: type[T], id: str, form: type[Item], state_name: str
) -> T:
    """The thing after the edit in the body, in which null is a value. Raises Refusal 400, 404, 422."""
    thing, body = _required(sandbox, cls, id), request.json()
    if not isinstance(body, dict):
        raise Refusal(400, "the request body must be a JSON object")
    edits = read(body, form).model_dump(exclude_unset=True)
    state = edits.pop(state_name, None)
    for name, value in edits.items():
        setattr(thing, name, value)
    if state is None:
        sandbox.world.put(thing)
    else:
        sandbox.world.enter(thing, state)
    return thing
