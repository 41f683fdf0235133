"""The page at `/`: the world, the last requests and the clock, for a person. It needs no script."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from reconciler.sandbox import html, switches
from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.controlled import Controlled
from reconciler.sandbox.exchange import Response
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.parts.delivery import Delivery
from reconciler.sandbox.parts.machine import shown_state
from reconciler.sandbox.parts.provider import Provider, Resource, User
from reconciler.sandbox.parts.secret import Secret
from reconciler.sandbox.parts.volume import Snapshot, Volume
from reconciler.sandbox.world import App, Machine, Thing

MOST_ROWS = 100
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "cache-control": "no-store",
}


class Row(NamedTuple):
    cells: Sequence[Any]
    changed: bool = False


class Section(NamedTuple):
    name: str
    titles: Sequence[str]
    rows: Sequence[Row]
    total: int


def show(sandbox: Controlled) -> Response:
    world = sandbox.world
    return html.page(
        "page.html",
        _HEADERS,
        now=rfc3339(world.now),
        clock=sandbox.clock.setting,
        profile="extended" if sandbox.extended else "documented",
        strict=sandbox.strict,
        sections=[*_world(sandbox), _switches(sandbox), _faults(sandbox), _requests(sandbox)],
    )


def _world(sandbox: Controlled) -> Iterable[Section]:
    world = sandbox.world

    def section(name: str, titles: Sequence[str], cls: type[Any], cells: Any) -> Section:
        things: Sequence[Thing] = list(world.all(cls))
        return Section(name, titles, [Row(cells(each)) for each in things[-MOST_ROWS:]], len(things))

    yield section("Apps", ("name", "organization", "region"), App, _app)
    yield section(
        "Clusters",
        ("id", "name", "status", "plan", "region", "disk GB"),
        Cluster,
        lambda each: (each.id, each.name, each.state, each.plan, each.region, each.disk_size_gb),
    )
    yield section(
        "Volumes",
        ("id", "app", "name", "state", "size GB", "region", "zone", "machine"),
        Volume,
        lambda each: (
            *(each.id, each.app, each.name, each.state, each.size_gb, each.region, each.zone),
            each.attached_machine_id or "",
        ),
    )
    yield section(
        "Snapshots",
        ("id", "volume", "state", "created at", "days kept"),
        Snapshot,
        lambda each: (
            *(each.id, each.volume_id, each.state),
            "" if each.created_at is None else rfc3339(each.created_at),
            each.retention_days,
        ),
    )
    yield section(
        "Secrets",
        ("app", "name", "digest", "updated at"),
        Secret,
        lambda each: (each.app, each.name, each.digest, rfc3339(each.updated_at)),
    )
    yield section(
        "Machines",
        ("id", "app", "name", "state", "region", "memory MB"),
        Machine,
        lambda each: (
            *(each.id, each.app, each.name, shown_state(world, each)),
            *(each.region, each.memory_mb),
        ),
    )
    yield section(
        "Providers",
        ("name", "organization", "base URL", "redirect URI", "events"),
        Provider,
        lambda each: (
            *(each.id, each.organization, each.base_url, each.redirect_uri),
            "yes" if each.events else "no",
        ),
    )
    yield section(
        "Users",
        ("id", "name", "alias", "organizations"),
        User,
        lambda each: (
            *(each.id, each.name, each.email),
            ", ".join(f"{role} of {id}" for id, role in each.organizations.items()),
        ),
    )
    yield section(
        "Resources",
        ("provider", "id", "status", "name", "plan"),
        Resource,
        lambda each: (each.provider, each.resource_id, each.status, each.name, each.plan),
    )
    yield section(
        "Deliveries",
        ("at", "provider", "what", "about", "state", "attempts", "answer"),
        Delivery,
        lambda each: (
            *(rfc3339(each.made_at), each.provider, each.type or each.purpose, each.about, each.state),
            *(each.attempts, each.status or each.problem),
        ),
    )


def _app(app: App) -> Sequence[Any]:
    return app.id, app.org_slug, app.primary_region


def _switches(sandbox: Controlled) -> Section:
    """Those that do not stand at their default."""
    moved = [
        Row((name, value, switches.default_of(switches.SWITCHES[name], extended=sandbox.extended)))
        for name, value in sandbox.world.switches.items()
        if value != switches.default_of(switches.SWITCHES[name], extended=sandbox.extended)
    ]
    return Section("Switches moved", ("name", "value", "default"), moved, len(moved))


def _faults(sandbox: Controlled) -> Section:
    pending = sandbox.faults.pending
    rows = [
        Row(
            (
                fault.action,
                fault.method,
                fault.path,
                "all" if fault.times is None else fault.times,
                fault.probability,
            )
        )
        for fault in islice(pending, MOST_ROWS)
    ]
    return Section("Faults to come", ("action", "method", "path", "times", "probability"), rows, len(pending))


def _requests(sandbox: Controlled) -> Section:
    """The newest first; those that changed the world are marked."""
    total, last = sandbox.database.tail(MOST_ROWS)
    rows = [
        Row((seq, entry.at, entry.method, entry.path, entry.status or "no answer"), entry.effect)
        for seq, entry in last
    ]
    return Section("Last requests", ("number", "at", "method", "path", "status"), rows, total)
