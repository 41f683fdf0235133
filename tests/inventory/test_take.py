"""What an inventory makes of the platform's answers: owners, copies, ages, prices, and proposed removals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.context import Origin
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.execution.intents import Intent
from reconciler.inventory.page import Inventory, inventory_report
from reconciler.inventory.prices import Prices, Row
from reconciler.inventory.take import detached_since, take_inventory
from reconciler.kinds.roles import Look
from reconciler.planning.conflicts import Siblings
from reconciler.project import looks
from reconciler.reports.formats import find_format
from reconciler.state.store import REMEMBERED, WHOLE_STATE, Event, JournalEntry, State
from tests.importing.scene import ALL, NOW, Scene, cluster, record, volume, volumes
from tests.state.doubles import read_only

PRICES = Prices([Row("Volume", "", "GB-month", "0.15"), Row("PostgresCluster/starter", "", "month", "72")])
DATA = (
    "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data, app: shop, id: vol_data}\n"
    "spec: {region: ams, size_gb: 10}\n"
)
HELD = {"attached_machine_id": "e286"}
BLOCKS = {"blocks": 2621440, "block_size": 4096, "blocks_free": 1310720}
SNAPSHOTS = [
    {"id": "vs_1", "size": 2**30, "created_at": "2026-05-28T00:00:00Z"},
    {"id": "vs_2", "size": 2**31, "created_at": "2026-05-31T00:00:00.5Z", "status": "created"},
    {"id": "vs_3", "size": 0, "created_at": "0001-01-01T00:00:00Z", "status": "running"},
    {"id": "vs_4", "size": 9, "created_at": "2026-05-31T12:00:00Z", "status": "failed"},
]


def remembered(seen: Mapping[str, Sequence[Look]]) -> Mapping[str, StateRecord]:
    """The notes of the looks at volumes."""
    notes: dict[str, dict[str, Any]] = {}
    for id, of in seen.items():
        packed = looks._pack(list(map(looks._row, of)))
        notes.setdefault(looks._note(f"Volume/{id}"), {})[f"Volume/{id}"] = [0, packed, 0]
    return {
        name: StateRecord(Address(REMEMBERED, name), "", WHOLE_STATE, content, Lifecycle(), NOW, serial=1)
        for name, content in notes.items()
    }


def taken(
    scene: Scene, seen: Mapping[str, Sequence[Look]] = {}, prices: Prices | None = None, **asked: Any
) -> Inventory:
    state = State("lineage", scene.records, scene.intents, frozenset(), remembered=remembered(seen))
    project = scene._project()
    project = replace(project, store=read_only(state, project.clock, scene.root))
    take = partial(
        take_inventory,
        project,
        scene._present(),
        Origin(),
        prices=prices,
        **({"records": False, "proposes": False} | asked),
    )
    return anyio.run(take)


def shop(scene: Scene, *found: Any) -> Scene:
    """The volumes of the app, without snapshots."""
    scene.live[volumes("shop")] = list(found)
    for each in found:
        scene.live.setdefault(f"{volumes('shop')}/{each['id']}/snapshots", [])
    return scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    scene.write(DATA)
    return scene


def test_each_object_has_its_owner_and_what_is_gone_is_not_there(scene: Scene) -> None:
    scene.record(record("Volume/shop/left", "vol_left"))
    shop(
        scene,
        volume("vol_data", **HELD),
        volume("vol_left", name="left"),
        volume("vol_new", name="new"),
        volume("vol_dead", state="pending_destroy"),
    )
    found = {item.id: (item.owner, item.address) for item in taken(scene).items}
    assert found == {
        "vol_data": ("declared", "Volume/shop/data"),
        "vol_left": ("recorded", "Volume/shop/left"),
        "vol_new": ("undeclared", None),
    }


def test_clusters_are_listed_by_organization_and_read_with_their_sizes(scene: Scene) -> None:
    scene.capabilities = ALL
    scene.record(record("PostgresCluster/orders", "orders0000000000"))
    other = cluster("others0000000000", name="other", plan="scale")
    shop(scene)
    scene.live |= {
        "/v1/postgres?org_slug=acme": {"data": [{"id": each} for each in (cluster()["id"], other["id"])]},
        "/v1/postgres/orders0000000000": {"data": cluster()},
        "/v1/postgres/others0000000000": {"data": other},
        "/v1/apps/shop/secrets": {"secrets": []},
    }
    found = taken(scene, prices=PRICES)
    assert {(item.name, item.owner, item.size_gb, item.monthly) for item in found.items} == {
        ("orders", "recorded", 10, Decimal(72)),
        ("other", "undeclared", 10, None),
    }
    assert [(each.kind, each.region, each.count) for each in found.unpriced] == [
        ("PostgresCluster", "ams", 1)
    ]
    assert found.problems == []


def test_what_nothing_lists_is_read_by_its_id_and_named_as_not_seen(scene: Scene) -> None:
    scene.record(
        record("PostgresCluster/orders", "orders0000000000"), record("PostgresCluster/gone", "g" * 16)
    )
    shop(scene)
    scene.live |= {
        "/v1/postgres/orders0000000000": {"data": cluster()},
        f"/v1/postgres/{'g' * 16}": {"status": 404, "body": {"error": "Cluster not found"}},
    }
    found = taken(scene)
    assert [(item.name, item.place) for item in found.items] == [("orders", "acme")]
    assert [(each.code, each.severity.value) for each in found.problems] == [("capability-missing", "info")]


def test_usable_snapshots_are_counted_with_their_ages_and_a_list_that_fails_is_told(scene: Scene) -> None:
    shop(scene, volume("vol_data", **HELD), volume("vol_b", name="b"))
    scene.live[f"{volumes('shop')}/vol_data/snapshots"] = SNAPSHOTS
    scene.live[f"{volumes('shop')}/vol_b/snapshots"] = {"status": 403, "body": {"error": "unauthorized"}}
    rows = [*PRICES.rows, Row("Snapshot", "*", "GB-month", "0.08")]
    found = taken(scene, prices=Prices(rows))
    data, other = (next(item for item in found.items if item.id == id) for id in ("vol_data", "vol_b"))
    assert data.copies is not None
    assert (data.copies.count, data.copies.bytes, data.copies.monthly) == (2, 3 * 2**30, Decimal("0.24"))
    assert (data.copies.oldest, data.copies.newest) == (
        datetime.fromisoformat("2026-05-28T00:00:00Z"),
        datetime.fromisoformat("2026-05-31T00:00:00.5Z"),
    )
    assert (data.cost, other.copies, other.cost) == (Decimal("0.69"), None, Decimal("0.45"))
    assert [each.code for each in found.problems] == ["capability-missing", "unreadable"]


def test_people_read_it_by_app_with_a_total(scene: Scene) -> None:
    shop(scene, volume("vol_data", size_gb=10, **HELD, **BLOCKS), volume("vol_b", name="b"))
    scene.live[f"{volumes('shop')}/vol_data/snapshots"] = SNAPSHOTS
    seen = {"vol_b": [Look(NOW - timedelta(days=day), 3, attached=False) for day in (3, 2, 1)]}
    report = inventory_report(taken(scene, seen, PRICES), ["manifests/shop.yaml"])
    total = "Inventory: 2 Volumes, 2 Snapshots, 13 GB, 1 undeclared, 1 without a machine; 1.95 a month."
    assert report.text.splitlines() == [
        total,
        "shop: 2 Volumes, 2 Snapshots, 13 GB, 1 undeclared, 1 without a machine; 1.95 a month",
        "  Volume b (vol_b): undeclared; ams; 3 GB; "
        "without a machine since: 2026-05-29 00:00 UTC (3 days ago); 0 Snapshots, 0.0 GB; 0.45 a month",
        "  Volume/shop/data (vol_data): declared; ams; 10 GB, 5.0 of 10.0 GB used (50 %); has a machine; "
        "2 Snapshots, 3.0 GB, newest 2026-05-31 00:00 UTC (24 h ago), "
        "oldest 2026-05-28 00:00 UTC (4 days ago); 1.50 a month",
        "unpriced: 2 Snapshots in ams",
        "Wrote manifests/shop.yaml: a change for a pull request. Nothing is removed.",
        total,
    ]
    html = find_format("html")
    assert html is not None
    page = html.render(report)
    assert "<td>Volume b (vol_b)</td><td>undeclared</td>" in page
    assert "<h1>Inventory: 2 Volumes" in page


def test_names_from_the_platform_break_out_of_no_format(scene: Scene) -> None:
    shop(scene, volume("vol_b", name="<script>\x1b[2J\u202e"))
    report = inventory_report(taken(scene), [])
    for name in ("text", "html", "json"):
        format = find_format(name)
        assert format is not None
        text = format.render(report)
        assert not {"\x1b", "\u202e"}.intersection(text)
        assert name != "html" or "<script>" not in text


# --- removals ---

WEEK = [Look(NOW - timedelta(days=day), 3, attached=False) for day in range(8, 0, -1)]


@pytest.mark.parametrize(
    ("fields", "seen", "why"),
    [
        ({}, WEEK, ""),
        ({}, WEEK[2:], "it has had no machine for less than 7 days, by our looks"),
        ({}, [*WEEK[:3], *WEEK[5:]], "it has had no machine for less than 7 days, by our looks"),
        ({}, WEEK[:6], "no look has recorded since when it has no machine"),
        ({}, [], "no look has recorded since when it has no machine"),
        (HELD, WEEK, "a machine holds it"),
        ({"attached_alloc_id": "a1"}, WEEK, "a machine holds it"),
        ({"name": "drill-x"}, WEEK, "its name is one that restore drills give"),
    ],
)
def test_only_a_volume_seen_without_a_machine_for_a_week_is_proposed(
    scene: Scene, fields: Mapping[str, Any], seen: Sequence[Look], why: str
) -> None:
    shop(scene, volume("vol_b", **{"name": "b", **fields}))
    found = taken(scene, {"vol_b": seen}, proposes=True)
    assert [entry.live.id for entry in found.removals] == ([] if why else ["vol_b"])
    (item,) = found.items
    assert item.removal == (f"not proposed: {why}" if why else "proposed")


def test_what_is_owned_or_not_a_volume_is_never_proposed(scene: Scene) -> None:
    scene.capabilities = ALL
    scene.record(record("Volume/shop/left", "vol_left"), record("PostgresCluster/orders", "orders0000000000"))
    other = cluster("others0000000000", name="other")
    shop(scene, volume("vol_data"), volume("vol_left", name="left"))
    scene.live |= {
        "/v1/postgres?org_slug=acme": {"data": [{"id": "orders0000000000"}, {"id": "others0000000000"}]},
        "/v1/postgres/orders0000000000": {"data": cluster()},
        "/v1/postgres/others0000000000": {"data": other},
        "/v1/apps/shop/secrets": {"secrets": []},
    }
    found = taken(scene, {"vol_data": WEEK, "vol_left": WEEK}, proposes=True)
    assert found.removals == []
    assert {item.id: item.removal for item in found.items if item.removal} == {
        "others0000000000": "not proposed: the platform does not tell whether it is used"
    }


def test_what_a_call_of_unknown_outcome_may_have_made_is_never_proposed(scene: Scene) -> None:
    shop(scene, volume("vol_b", name="b"))
    data = Intent("POST", volumes("shop"), "find", True, {}, "shop", Lifecycle(), "").to_json()
    scene.intents = (JournalEntry("r", Event.INTENT, NOW, Address("Volume", "b", "shop"), "s", data=data),)
    found = taken(scene, {"vol_b": WEEK}, proposes=True)
    assert found.removals == []
    assert found.items[0].removal == "not proposed: a call of unknown outcome may have made it"


def test_nothing_is_proposed_while_another_environment_cannot_be_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unread(config: object) -> Siblings:
        return Siblings({}, ("prod",))

    monkeypatch.setattr("reconciler.importing.unmanaged.read_siblings", unread)
    found = taken(shop(scene, volume("vol_b", name="b")), {"vol_b": WEEK}, proposes=True)
    assert found.removals == []
    assert found.items[0].removal.startswith("not proposed: it may be of environment `prod`")


held = st.lists(st.tuples(st.integers(0, 20 * 24), st.sampled_from([True, False, None])), max_size=30)


@given(held)
def test_since_when_is_the_start_of_an_unbroken_run_of_looks(found: list[tuple[int, bool | None]]) -> None:
    """By an oracle that tries each look as the start."""
    found = sorted(dict(found).items(), reverse=True)
    of = [Look(NOW - timedelta(hours=hours), attached=attached) for hours, attached in found]
    run = [*of, Look(NOW, attached=False)]
    starts = [
        run[start].at
        for start in range(len(of))
        if all(look.attached is False for look in run[start:])
        and all(b.at - a.at <= timedelta(days=2) for a, b in zip(run[start:], run[start + 1 :], strict=False))
    ]
    assert detached_since(of, run[-1]) == min(starts, default=None)
    assert detached_since(of, Look(NOW, attached=True)) is None
