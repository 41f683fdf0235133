"""Silence is told once, and its end once."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from reconciler.controller.status import ScopeStatus, Seen, Status
from reconciler.controller.statuses import Silence, of_change
from reconciler.notify.events import Run

AT = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(minutes=10)
RUN = Run("controller", "base", "", 0, "ana", "", AT)
SHOP = ScopeStatus("shop", Status.IN_SYNC, AT, AT)


def later(minutes: float) -> Run:
    return replace(RUN, at=AT + timedelta(minutes=minutes))


def told(silence: Silence, status: ScopeStatus, minutes: float) -> list[str]:
    return [event.summary for event in silence.events({"shop": status}, EVERY, later(minutes))]


def test_a_scope_that_nobody_saw_for_three_rounds_is_told_once_and_once_when_it_is_back() -> None:
    silence = Silence()
    unknown = SHOP.after(Seen(Status.UNKNOWN, "503"), AT + EVERY)
    assert told(silence, unknown, 30) == []
    assert told(silence, unknown, 31) == ["shop: not seen since 2026-01-01 00:00:00 UTC: 503"]
    assert told(silence, unknown, 41) == []
    back = unknown.after(Seen(Status.IN_SYNC), AT + timedelta(minutes=50))
    assert told(silence, back, 51) == ["shop: seen again: in-sync"]
    assert told(silence, back, 52) == []


def test_who_was_never_seen_is_silent_too_and_who_is_suspended_is_not() -> None:
    never = ScopeStatus("shop", Status.LOCKED, AT)
    assert len(told(Silence(), never, 31)) == 1
    assert told(Silence(), replace(never, status=Status.SUSPENDED), 31) == []


def test_what_people_should_know_is_told() -> None:
    told = {status: list(of_change(replace(SHOP, status=status), RUN)) for status in Status}
    assert {str(status): events[0].name for status, events in told.items() if events} == {
        "drifted": "drift",
        "owed": "owed",
        "question": "question",
    }
