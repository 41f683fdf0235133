"""The price file: which row counts, what is wrong with it and where, and what a plan changes."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.errors import ManifestError
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Lifecycle, StateRecord
from reconciler.core.steps import Call, Plan, Step
from reconciler.inventory.prices import Prices, Row, price_of_plan, read_prices
from reconciler.manifests.load import load
from reconciler.state.store import State
from tests.contexts import context
from tests.execution.stage import START, cluster, volume

HEADER = "kind,region,unit,price\n"


def prices(tmp_path: Path, rows: str) -> Prices:
    file = tmp_path / "prices.csv"
    file.write_text(HEADER + rows, encoding="utf-8")
    return read_prices(file, tmp_path)


def one(kind: str, gb: int | None = 10, *, plan: str = "", region: str = "ams", number: int = 1) -> Any:
    return kind, {"plan": plan, "region": region}, gb, number


def test_the_first_row_of_a_unit_that_fits_counts(tmp_path: Path) -> None:
    found = prices(tmp_path, "Volume,fra,GB-month,0.30\nVolume,,GB-month,0.15\nVolume,*,GB-month,9\n")
    assert found.monthly(*one("Volume", region="fra")) == Decimal("3.00")
    assert found.monthly(*one("Volume")) == Decimal("1.50")
    assert found.monthly(*one("Snapshot")) is None


def test_an_object_may_have_a_price_for_itself_and_one_for_each_gb(tmp_path: Path) -> None:
    found = prices(
        tmp_path, "PostgresCluster/launch,,month,282\npostgrescluster,,GB-month,0.28\n*,,month,1.5\n"
    )
    assert found.monthly(*one("PostgresCluster", plan="Launch")) == Decimal("284.80")
    assert found.monthly(*one("PostgresCluster", plan="basic")) == Decimal("4.30")
    assert found.monthly(*one("Backup", number=3)) == Decimal("4.5")
    assert found.monthly(*one("PostgresCluster", None, plan="launch")) is None, "a size is not known"


@given(st.lists(st.decimals(0, 10**6, places=4), max_size=20))
def test_amounts_are_exact(amounts: list[Decimal]) -> None:
    total = Decimal()
    for amount in amounts:
        cost = Prices([Row("Volume", "", "GB-month", f"{amount:f}")]).monthly(*one("Volume", 3))
        assert cost is not None
        total += cost
    assert total == 3 * sum(amounts, Decimal())


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (HEADER + "Volume,ams,GB-month,0,15\n", "2:1", "expected 4 values, found 5"),
        (HEADER + "Volume,ams,GB-month,-1\n", "2:21", "`-1` is not a price; one looks like 0.15"),
        (HEADER + "Volume,ams,GB-month,NaN\n", "2:21", "`NaN` is not a price; one looks like 0.15"),
        (HEADER + "Volume,ams,GB-month,1e3\n", "2:21", "`1e3` is not a price; one looks like 0.15"),
        (
            HEADER + "\nVolume,ams,GB-hour,1\n",
            "3:12",
            "`GB-hour` is not a unit; there are GB-month and month",
        ),
        (HEADER + 'Volume,"ams",days,1\n', "2:14", "`days` is not a unit; there are GB-month and month"),
        (
            HEADER + "Disk,ams,month,1\n",
            "2:1",
            "`Disk` is not a kind that has a price; there are PostgresCluster, Backup, Volume, Snapshot",
        ),
        ("kind,unit,price\n", "1:1", "the first line must be `kind,region,unit,price`"),
        ("", "1:1", "the first line must be `kind,region,unit,price`"),
        ("\x00\x00", "1:1", "the first line must be `kind,region,unit,price`"),
        (b"\xff\xfe", "1:1", "the first line must be `kind,region,unit,price`"),
        (HEADER + "x" * 200_000, "1:1", "the first line must be `kind,region,unit,price`"),
        (HEADER + '"' * 99_000, "2:1", "expected 4 values, found 1"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, text: str | bytes, place: str, message: str
) -> None:
    file = tmp_path / "prices.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ManifestError) as failure:
        read_prices(file, tmp_path)
    (problem,) = failure.value.diagnostics
    assert problem.code == "bad-price"
    assert problem.span is not None
    assert problem.span.place == f"prices.csv:{place}"
    assert problem.message.startswith(message)


def test_all_mistakes_are_told_together_and_a_spreadsheets_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as failure:
        prices(tmp_path, "Volume,,week,x\nDisk,,month,1\n")
    assert [each.span.place for each in failure.value.diagnostics if each.span] == [
        "prices.csv:2:9",
        "prices.csv:2:14",
        "prices.csv:3:1",
    ]
    file = tmp_path / "prices.csv"
    file.write_bytes(b'\xef\xbb\xbfkind,region,unit,price\r\n\r\n"Volume","", GB-month , 0.15\r\n')
    assert read_prices(file, tmp_path).monthly(*one("Volume")) == Decimal("1.50")


# --- what a plan changes ---


def of_plan(
    tmp_path: Path,
    manifests: str,
    changes: Mapping[str, Change],
    records: Mapping[str, Mapping[str, object]],
    steps: Sequence[Step] = (),
) -> tuple[Decimal, tuple[str, ...]]:
    found = prices(tmp_path, "Volume,,GB-month,0.15\nPostgresCluster/starter,,month,72\n")
    loaded = load(["-"] if manifests else [], root=tmp_path, stdin=manifests.encode)
    resources = {resource.address: resource for resource in loaded.resources}
    known = {
        Address.parse(address): StateRecord(Address.parse(address), "id", "shop", applied, Lifecycle(), START)
        for address, applied in records.items()
    }
    state = State("lineage", known, (), frozenset())
    plan = Plan("id", context(), tuple(changes.values()), tuple(steps), (), (), (), ())
    priced = price_of_plan(found, plan, resources, state)
    return priced.monthly, priced.unpriced


def change(
    address: str, action: Action, *fields: FieldChange, also: tuple[Action, ...] = ()
) -> dict[str, Change]:
    return {address: Change(Address.parse(address), action, fields, also=also)}


def test_a_plan_costs_what_it_creates_and_grows_less_what_it_deletes(tmp_path: Path) -> None:
    grown = FieldChange("size_gb", 10, 30, Effect.GROW)
    changes = {
        **change("Volume/shop/data", Action.CREATE),
        **change("Volume/shop/logs", Action.ADOPT, grown, also=(Action.EXTEND,)),
        **change("Volume/shop/old", Action.DELETE, also=(Action.SNAPSHOT,)),
        **change("PostgresCluster/orders", Action.CREATE),
        **change("Volume/shop/kept", Action.RETAIN),
        **change("Secret/shop/KEY", Action.SET),
    }
    manifests = volume(spec="region: ams, size_gb: {min: 20, max: 50}") + volume("logs") + cluster()
    found = of_plan(tmp_path, manifests, changes, {"Volume/shop/old": {"size_gb": 40, "region": "fra"}})
    assert found == (Decimal("3.00") + Decimal("3.00") - Decimal("6.00") + 72, ())


def test_a_change_without_a_price_is_named(tmp_path: Path) -> None:
    of_a_snapshot = volume("copy", "region: ams, from: {snapshot_id: vs_1}")
    bare = volume("bare", "region: ams")
    changes = {
        **change("Volume/shop/copy", Action.CREATE),
        **change("Volume/shop/bare", Action.CREATE),
        **change("PostgresCluster/orders", Action.CREATE),
    }
    manifests = of_a_snapshot + bare + cluster().replace("starter", "scale")
    assert of_plan(tmp_path, manifests, changes, {}) == (
        Decimal("0.45"),
        ("Volume/shop/copy", "PostgresCluster/orders"),
    )


def test_what_a_delete_saves_is_of_the_size_that_it_has_there(tmp_path: Path) -> None:
    address = Address("Volume", "old", "shop")
    step = Step("delete", address, Call("DELETE", "/v1/apps/shop/volumes/id"), uses={"gb_deleted": 500})
    found = of_plan(
        tmp_path, "", change(str(address), Action.DELETE), {str(address): {"region": "fra"}}, [step]
    )
    assert found == (Decimal("-75.00"), ())
