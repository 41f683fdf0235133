"""A status goes through the state as it is, and what is not known there is left out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from reconciler.controller.memory import Kept, Order, read
from reconciler.controller.status import ScopeStatus, Seen, Status, _seen
from reconciler.core.model import Address, Lifecycle, Owed, StateRecord
from reconciler.state.store import REMEMBERED, WHOLE_STATE, State

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = ScopeStatus("shop", Status.DRIFTED, AT, AT, "Volume/shop/data")


def state(**notes: Any) -> State:
    records = {}
    for name, content in notes.items():
        address = Address(REMEMBERED, name.replace("_", "-"))
        records[address] = StateRecord(address, "", WHOLE_STATE, content, Lifecycle(), AT, serial=1)
    return State("lineage", records, (), frozenset(), serials={WHOLE_STATE: 1})


@pytest.mark.parametrize("status", [SHOP, replace(SHOP, last_success=None, status=Status.IN_SYNC)])
def test_a_status_is_the_same_after_it_was_kept(status: ScopeStatus) -> None:
    assert read(state(controller={"shop": to_builtins(status)})).statuses == {"shop": status}


@pytest.mark.parametrize(
    "broken", [{"status": "asleep"}, {"since": "never"}, {"last_success": 3}, {"scope": None}]
)
def test_what_a_newer_version_wrote_is_left_out(broken: dict[str, object]) -> None:
    written = {key: value for key, value in (to_builtins(SHOP) | broken).items() if value is not None}
    kept = read(state(controller={"shop": written, "other": to_builtins(replace(SHOP, scope="other"))}))
    assert set(kept.statuses) == {"other"}


def test_orders_and_the_accepted_commit_are_read() -> None:
    orders = {"shop": {"suspended": "why"}, "lab": {"now": AT.isoformat()}}
    kept = read(state(controller_orders=orders, controller_source={"accepted": "abc"}))
    assert kept == Kept({}, {"shop": Order("why"), "lab": Order(now=AT.isoformat())}, "abc")
    assert kept.order("nonesuch") == Order()


def test_only_a_look_that_could_tell_is_a_success_and_since_is_when_it_changed() -> None:
    later = AT + timedelta(hours=1)
    unknown = SHOP.after(Seen(Status.UNKNOWN, "503"), later)
    assert (unknown.since, unknown.last_success, unknown.reason) == (later, AT, "503")
    same = SHOP.after(Seen(Status.DRIFTED, "another"), later)
    assert (same.since, same.last_success, same.reason) == (AT, later, "another")
    assert [status for status in Status if not Seen(status).success] == ["suspended", "locked", "unknown"]


def test_what_is_owed_says_until_when() -> None:
    data, more = (Address("Volume", name, "shop") for name in ("data", "more"))
    owed = [Owed(data, "restart", "grown", "owed", forced=AT), Owed(more, "restart", "grown", "owed")]
    found = _seen([], [], None, (), (), owed)
    told = "Volume/shop/data by 2026-01-01 00:00:00 UTC, Volume/shop/more"
    assert (found.status, found.reason) == (Status.OWED, told)


@pytest.mark.parametrize("status", [Status.DRIFTED, Status.UNKNOWN])
def test_no_time_is_in_the_future_once_the_clock_was_set_back(status: Status) -> None:
    now = AT - timedelta(days=1)
    after = SHOP.after(Seen(status), now)
    assert (after.since, after.last_success) == (now, now)
