"""When changes may go out: the cases that others got wrong, and a year against a second calendar."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from reconciler.core.cron import first_after
from reconciler.core.model import Action, Impact, Waits
from reconciler.guardrails.calendar import Calendar, waits
from reconciler.guardrails.limit import Limit
from tests.guardrails.naive import MINUTE, Naive, year
from tests.guardrails.times import freeze, window

NIGHTS = window("nights", "0 22 * * 1-5", "6h", "Europe/Berlin", "restart", "downtime")
SALE = freeze("sale", "2026-11-26T00:00Z", "2026-11-30T22:30+01:00", "snapshot")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def held(
    text: str, *limits: Limit, impact: Impact = Impact.RESTART, action: Action = Action.EXTEND, **more: Any
) -> Waits | None:
    return waits([Calendar(limits)], impact, (action,), at(text), **more)


def until(text: str, *limits: Limit, **more: Any) -> str:
    """When a change may go out that is pushed at this time, in UTC."""
    found = held(text, *limits, **more)
    if found is None:
        return text
    assert found.until is not None
    return f"{found.until:%Y-%m-%d %H:%M}"


def test_a_window_is_open_from_its_minute_to_before_its_end_and_over_midnight() -> None:
    assert held("2026-01-06T21:59:59+01:00", NIGHTS) is not None
    assert held("2026-01-06T22:00+01:00", NIGHTS) is None
    assert held("2026-01-07T03:59:59.999999+01:00", NIGHTS) is None
    assert held("2026-01-07T04:00+01:00", NIGHTS) is not None
    assert until("2026-01-10T12:00Z", NIGHTS) == "2026-01-12 21:00"  # a Saturday


def test_what_waits_is_said_in_the_windows_own_zone() -> None:
    now = at("2026-01-06T12:00Z")
    found = waits([Calendar([NIGHTS])], Impact.RESTART, (Action.EXTEND,), now)
    assert found is not None
    assert found.said(now) == "waits for nights, next open Tue 22:00 Europe/Berlin"
    assert found.said(now - timedelta(days=9)).endswith("next open Tue 2026-01-06 22:00 Europe/Berlin")


def test_an_impact_without_a_window_is_free() -> None:
    assert held("2026-01-06T12:00Z", NIGHTS, impact=Impact.ONLINE) is None


def test_a_deny_that_ends_inside_an_allow_lets_changes_go_at_its_end() -> None:
    assert until("2026-11-27T12:00Z", NIGHTS, SALE) == "2026-11-30 21:30"  # open since 21:00
    found = held("2026-11-27T12:00Z", NIGHTS, SALE)
    assert found is not None
    assert found.window == "sale"
    assert held("2026-11-30T21:30Z", NIGHTS, SALE) is None


def test_a_deny_that_ends_outside_an_allow_holds_until_the_next_one() -> None:
    early = freeze("early", "2026-01-05T00:00Z", "2026-01-06T12:00Z")
    assert until("2026-01-05T12:00Z", NIGHTS, early) == "2026-01-06 21:00"


def test_a_freeze_wins_over_an_open_window_but_for_the_actions_that_it_lets() -> None:
    now = "2026-11-26T23:00+01:00"
    assert held(now, NIGHTS) is None
    assert held(now, NIGHTS, SALE) is not None
    assert held(now, NIGHTS, SALE, action=Action.SNAPSHOT) is None
    assert held(now, SALE, impact=Impact.ONLINE) is not None
    both = (Action.EXTEND, Action.SNAPSHOT)
    assert waits([Calendar([SALE])], Impact.ONLINE, both, at(now)) is not None


def test_who_steps_over_a_window_does_not_step_over_a_freeze() -> None:
    assert held("2026-11-25T12:00Z", NIGHTS, SALE, stepped_over=True) is None
    assert held("2026-11-26T12:00Z", NIGHTS, SALE, stepped_over=True) is not None


def test_of_two_overlapping_windows_one_has_to_be_open() -> None:
    late = window("late", "0 1 * * *", "6h", "Europe/Berlin", "restart")
    assert held("2026-01-07T00:30+01:00", NIGHTS, late) is None
    assert held("2026-01-07T06:30+01:00", NIGHTS, late) is None
    assert until("2026-01-07T07:00+01:00", NIGHTS, late) == "2026-01-07 21:00"


def test_windows_of_several_revisions_have_to_be_open_together() -> None:
    always = Calendar([NIGHTS, window("always", "* * * * *", "1h", "UTC", "restart")])
    assert waits([always], Impact.RESTART, (Action.EXTEND,), at("2026-01-06T12:00Z")) is None
    found = waits([always, Calendar([NIGHTS])], Impact.RESTART, (Action.EXTEND,), at("2026-01-06T12:00Z"))
    assert found == Waits("nights", at("2026-01-06T21:00Z"), "Europe/Berlin")


def test_windows_that_never_are_open_together_have_no_next_time() -> None:
    odd, even = (window(name, f"{first} * * * *", "1m") for name, first in (("odd", 1), ("even", 2)))
    found = waits([Calendar([odd]), Calendar([even])], Impact.RESTART, (), at("2026-01-06T12:00Z"))
    assert found == Waits("odd", None)
    assert found.said(at("2026-01-06T12:00Z")) == "waits for odd, and no time is known at which it may go out"


def test_over_the_change_to_summer_time_a_window_lasts_as_long_as_ever() -> None:
    """2026-03-29 in Berlin: 02:00 to 03:00 is skipped."""
    early = window("early", "0 1 * * *", "3h", "Europe/Berlin")
    assert held("2026-03-29T02:59:59Z", early) is None  # 04:59 there
    assert held("2026-03-29T03:00Z", early) is not None
    skipped = window("skipped", "30 2 * * *", "1h", "Europe/Berlin")
    assert held("2026-03-29T00:59Z", skipped) is not None
    assert until("2026-03-29T00:59Z", skipped) == "2026-03-29 01:00"  # the first minute after it, 03:00
    assert held("2026-03-29T01:59:59Z", skipped) is None
    assert until("2026-03-29T02:00Z", skipped) == "2026-03-30 00:30"


def test_over_the_change_to_winter_time_a_window_opens_once() -> None:
    """2026-10-25 in Berlin: 02:00 to 03:00 comes twice, at 00:00 and at 01:00 UTC."""
    twice = window("twice", "30 2 * * *", "15m", "Europe/Berlin")
    assert held("2026-10-25T00:30Z", twice) is None
    berlin = ZoneInfo("Europe/Berlin")
    assert first_after(at("2026-10-25T01:10Z"), "30 2 * * *", berlin) == at("2026-10-26T01:30Z")
    assert until("2026-10-25T00:50Z", twice) == "2026-10-26 01:30"
    assert until("2026-10-25T01:10Z", twice) == "2026-10-26 01:30"  # 02:10 for the second time
    assert held("2026-10-25T01:30Z", twice) is not None
    long = window("long", "0 1 * * *", "3h", "Europe/Berlin")
    assert held("2026-10-25T01:59:59Z", long) is None
    assert held("2026-10-25T02:00Z", long) is not None


def test_a_star_in_the_minute_or_the_hour_means_elapsed_time() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert first_after(at("2026-10-25T00:10Z"), "0 * * * *", berlin) == at("2026-10-25T01:00Z")
    assert first_after(at("2026-03-28T02:00Z"), "*/15 2 * * *", berlin) == at("2026-03-30T00:00Z")


def test_a_window_on_29_february_opens_in_leap_years() -> None:
    leap = window("leap", "0 23 29 2 *", "2h", "UTC")
    assert until("2026-03-01T00:00Z", leap) == "2028-02-29 23:00"
    assert held("2028-03-01T00:59Z", leap) is None
    assert held("2028-03-01T01:00Z", leap) is not None


def test_a_clock_that_steps_back_by_an_hour_finds_what_it_found_then() -> None:
    times = [f"2026-01-06T{hour}:{minute}Z" for hour in (20, 21, 20, 21) for minute in ("30", "59")]
    assert [held(time, NIGHTS) is None for time in times] == [False, False, True, True] * 2


@pytest.mark.parametrize(
    ("mine", "other", "covers"),
    [
        (NIGHTS, NIGHTS, True),
        (window("n", "0 22 * * 1-5", "5h", "Europe/Berlin", "restart", "downtime"), NIGHTS, True),
        (window("n", "0 22 * * 1-5", "7h", "Europe/Berlin", "restart", "downtime"), NIGHTS, False),
        (window("n", "0 22 * * 1-5", "6h", "Europe/Berlin", "restart"), NIGHTS, False),
        (window("n", "0 22 * * *", "6h", "Europe/Berlin", "restart", "downtime"), NIGHTS, False),
        (window("n", "0 22 * * 1-5", "6h", "UTC", "restart", "downtime"), NIGHTS, False),
        (SALE, SALE, True),
        (freeze("s", "2026-11-25T00:00Z", "2026-12-01T00:00Z"), SALE, True),
        (freeze("s", "2026-11-26T01:00Z", "2026-12-01T00:00Z", "snapshot"), SALE, False),
        (freeze("s", "2026-11-26T00:00Z", "2026-11-30T20:00Z", "snapshot"), SALE, False),
        (freeze("s", "2026-11-26T00:00Z", "2026-12-01T00:00Z", "snapshot", "extend"), SALE, False),
        (SALE, NIGHTS, False),
    ],
)
def test_only_what_holds_as_much_back_covers(mine: Limit, other: Limit, covers: bool) -> None:
    assert mine.covers(other) is covers


LIMITS = (
    window("nights", "0 22 * * 1-5", "6h", "Europe/Berlin", "restart", "downtime"),
    window("lunch", "30 12 * * *", "90m", "America/New_York", "restart"),
    window("leap", "0 1 29 2 *", "26h", "Australia/Lord_Howe", "data_loss"),
    window("sundays", "30 2 * * 0", "50m", "Europe/Berlin", "data_loss"),
    window("west", "15 1 * * 7", "45m", "America/New_York", "data_loss"),
    window("island", "45 1 * * 0,3", "20m", "Australia/Lord_Howe", "data_loss"),
    window("often", "*/20 1-3 * * 6,0", "5m", "Europe/Berlin", "repoint"),
    window("firsts", "0 0 1 * *", "24h", "Asia/Kathmandu", "repoint"),
    window("both", "5 4 13 * 5", "2h", "America/Santiago", "repoint"),
    window("month", "59 23 28-31 * *", "3d", "UTC", "online"),
    freeze("sale", "2028-11-24T00:00Z", "2028-11-28T22:30+01:00", "snapshot"),
    freeze("more", "2028-11-28T20:00Z", "2028-11-29T02:17-05:00"),
    freeze("spring", "2028-03-26T01:30+01:00", "2028-03-26T04:00+02:00", "extend", "snapshot"),
    freeze("autumn", "2028-10-29T02:30+02:00", "2028-10-29T02:30+01:00"),
)
CHANGES = (
    (Impact.RESTART, (Action.EXTEND,)),
    (Impact.RESTART, (Action.EXTEND, Action.SNAPSHOT)),
    (Impact.DOWNTIME, (Action.STOP,)),
    (Impact.DATA_LOSS, (Action.DELETE,)),
    (Impact.REPOINT, (Action.SET,)),
    (Impact.ONLINE, (Action.SNAPSHOT,)),
)


@pytest.mark.slow
def test_a_year_is_that_of_a_second_calendar() -> None:
    """Samples, and where anything changes; `tests.reliability.windows` looks at all minutes."""
    assert differences(every=499) == []


def differences(every: int) -> list[str]:
    """Where the two calendars differ in every so many minutes of a leap year."""
    begin, minutes = year(2028)
    naive, calendar = Naive(LIMITS, begin, minutes), Calendar(LIMITS)
    found = []
    for impact, actions in CHANGES:
        may = naive.may(impact, actions)
        following = list(_following(may))
        for minute in dict.fromkeys([*range(0, minutes, every), *_edges(may)]):
            time = begin + minute * MINUTE
            held, then = waits([calendar], impact, actions, time), following[minute]
            if (held is None) is not may[minute]:
                found.append(f"{impact}, {time}: {held}")
            elif held is not None and then is not None and held.until != begin + then * MINUTE:
                found.append(f"{impact}, {time}: {held.until}, not {begin + then * MINUTE}")
    return found


def _following(may: Sequence[bool]) -> Iterator[Any]:
    """By minute, the first one from it on in which a change may go out."""
    found: list[int | None] = []
    next_one = None
    for minute in reversed(range(len(may))):
        next_one = minute if may[minute] else next_one
        found.append(next_one)
    return reversed(found)


def _edges(may: Sequence[bool]) -> Iterator[int]:
    """The minutes around those in which it changes, and those of the nights in which clocks are changed."""
    for minute in range(1, len(may)):
        if may[minute] is not may[minute - 1]:
            yield from (minute - 1, minute)
