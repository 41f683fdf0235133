"""What is made of what was seen, without a server."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from reconciler.drills.checks.model import DatabaseFacts, Facts, Wanted
from reconciler.drills.checks.verdicts import MANY_ROWS, Found, compare_rows, judge_point

POINT = datetime(2026, 11, 26, 3, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_INSTANT = timedelta(milliseconds=700)
_LONG = timedelta(hours=73)


@pytest.mark.parametrize(
    ("newest", "target", "before", "exact", "verdict"),
    [
        (None, None, None, True, "not configured"),
        (POINT - 4 * _MINUTE, None, None, True, "passed"),
        (POINT + _LONG, None, None, False, "passed"),
        (POINT + _LONG, None, None, True, "failed"),
        (POINT - _LONG, None, None, True, "could not verify"),
        (POINT - _LONG, POINT, None, True, "passed"),
        (POINT - _LONG, POINT - _LONG, None, True, "failed"),
        (POINT - _LONG, POINT - 2 * _LONG, None, True, "could not verify"),  # a setting of an older recovery
        (POINT - 2 * _LONG, None, POINT - _LONG, True, "failed"),
        (POINT - 2 * _LONG, POINT, POINT - _LONG, True, "failed"),
        (POINT - _MINUTE, None, POINT + _LONG, True, "passed"),  # the last drill was of a later point
        (POINT - 2 * _MINUTE, None, POINT + _INSTANT, True, "passed"),
        (POINT - 2 * _MINUTE, None, POINT + _INSTANT, False, "failed"),  # a backup ends in that second
    ],
)
def test_the_recovery_point_is_judged_by_all_that_says_something(
    newest: datetime | None, target: datetime | None, before: datetime | None, exact: bool, verdict: str
) -> None:
    wanted = Wanted(None, None, POINT, before=Facts(recovery_point=before), exact=exact)
    assert judge_point(wanted, newest, target).verdict == verdict


def test_without_a_point_only_the_last_good_drill_counts() -> None:
    wanted = Wanted(None, None, None, before=Facts(recovery_point=POINT))
    assert judge_point(wanted, POINT, None).verdict == "passed"
    assert judge_point(wanted, POINT - _LONG, None).verdict == "failed"


@pytest.mark.parametrize(
    ("before", "now", "is_wrong"),
    [
        (1, 0, True),
        (0, 0, False),
        (99, 1, False),
        (100, 50, False),
        (100, 49, True),
        (5 * MANY_ROWS, 2 * MANY_ROWS, True),
        (5 * MANY_ROWS, MANY_ROWS, False),  # nobody knows how many there are
    ],
)
def test_a_table_may_shrink_by_half(before: int, now: int, is_wrong: bool) -> None:
    found = Found()
    compare_rows(found, "app", {"public.orders": before}, {"public.orders": now, "public.more": 0})
    assert bool(found.wrong) == is_wrong


def test_damage_outweighs_what_was_not_seen_and_both_outweigh_the_rest() -> None:
    found = Found(skipped="not there")
    assert found.checked("rows").verdict == "not configured"
    found.looked = 7
    assert found.checked("rows").detail == "7 looked at"
    found.unseen += ["a"]
    assert found.checked("rows").verdict == "could not verify"
    found.wrong += ["a", "b", "c", "d", "e"]
    assert found.checked("rows").verdict == "failed"
    assert found.checked("rows").detail == "a; b; c; and 2 more"


def test_facts_come_back_from_json() -> None:
    facts = Facts((DatabaseFacts("app", ("public",), ("hstore",), 1, {"public.a": 1}),), 10, POINT)
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts
