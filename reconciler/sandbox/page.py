"""The page at `/`: the world, the last requests and the clock, for a person. It needs no script.

A section of the page is a part of the world, by the `columns` of its seed. Values are escaped by the
template.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from reconciler.sandbox import switches
from reconciler.sandbox.catalog import SEEDS
from reconciler.sandbox.clock import WorldClock, rfc3339
from reconciler.sandbox.database import Database
from reconciler.sandbox.exchange import Response, page
from reconciler.sandbox.faults import Faults
from reconciler.sandbox.part import Columns
from reconciler.sandbox.parts.delivery import Delivery
from reconciler.sandbox.world import Thing, World

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


def show(sandbox: Controlled) -> Response:
    """The answer to `GET /`: everything of the world, at most `MOST_ROWS` rows a table."""
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
