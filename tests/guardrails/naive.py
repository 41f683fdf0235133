"""A second calendar, minute by minute and by brute force: no cronsim, and nothing of ours."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from reconciler.guardrails.limit import Limit

MINUTE = timedelta(minutes=1)
LEAD = 3 * 1440  # minutes: a window may have opened before
_UNITS = {"m": 1, "h": 60, "d": 1440}


class Naive:
    """Which minutes from `begin` on are open, by window; and which are frozen."""

    def __init__(self, limits: Sequence[Limit], begin: datetime, minutes: int) -> None:
        self.begin, self.minutes = begin, minutes
        self.windows = [limit.spec for limit in limits if limit.kind == "Window"]
        self.freezes = [limit.spec for limit in limits if limit.kind == "Freeze"]
        self._open = [self._minutes(spec.opens, spec.lasts, spec.timezone) for spec in self.windows]

    def may(self, impact: str, actions: Collection[str]) -> list[bool]:
        """Whether a change may go out, by minute."""
        windows = [
            found for spec, found in zip(self.windows, self._open, strict=True) if impact in spec.impacts
        ]
        may = [any(each) for each in zip(*windows, strict=True)] if windows else [True] * self.minutes
        for freeze in self.freezes:
            if any(action not in freeze.exempt for action in actions):
                first, last = (
                    self._number(datetime.fromisoformat(at)) for at in (freeze.since, freeze.until)
                )
                for minute in range(max(0, first), min(last, self.minutes)):
                    may[minute] = False
        return may

    def _number(self, at: datetime) -> int:
        return round((at - self.begin) / MINUTE)

    def _minutes(self, opens: str, lasts: str, timezone: str) -> list[bool]:
        span = int(lasts[:-1]) * _UNITS[lasts[-1]]
        assert span <= LEAD
        found = [False] * (LEAD + self.minutes)
        for number, fires in enumerate(_fires(opens, _locals(timezone, self.begin, self.minutes))):
            if fires:
                found[number : number + span] = [True] * len(found[number : number + span])
        return found[LEAD:]


@cache
def _locals(timezone: str, begin: datetime, minutes: int) -> Sequence[tuple[datetime, bool]]:
    """The local time of each minute, from LEAD minutes before; and whether it comes for the second time."""
    zone = ZoneInfo(timezone)
    times = ((begin + number * MINUTE).astimezone(zone) for number in range(-LEAD - 1, minutes))
    return [(time.replace(tzinfo=None, fold=0), bool(time.fold)) for time in times]


def _fires(opens: str, local: Sequence[tuple[datetime, bool]]) -> Iterator[bool]:
    fixed = not any(field.startswith("*") for field in opens.split()[:2])
    for (before, _), (time, second) in pairwise(local):
        fires = _matches(opens, time) and not (fixed and second)
        skipped = before + MINUTE
        while fixed and skipped < time:  # the clock was put forward: what was skipped is now
            fires |= _matches(opens, skipped)
            skipped += MINUTE
        yield fires


def _matches(opens: str, at: datetime) -> bool:
    minute, hour, day, month, weekday = opens.split()
    if not (_in(minute, at.minute) and _in(hour, at.hour) and _in(month, at.month)):
        return False
    of_week = at.isoweekday()
    by_day, by_weekday = _in(day, at.day), _in(weekday, of_week) or _in(weekday, of_week % 7)
    if day.startswith("*") or weekday.startswith("*"):
        return by_day and by_weekday
    return by_day or by_weekday


@cache
def _in(field: str, value: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low, high = (0, 99) if span == "*" else (int(first), int(last or first))
        if low <= value <= high and (value - low) % int(step or 1) == 0:
            return True
    return False


def year(number: int) -> tuple[datetime, int]:
    begin, end = (datetime(each, 1, 1, tzinfo=UTC) for each in (number, number + 1))
    return begin, round((end - begin) / MINUTE)
