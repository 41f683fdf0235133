"""Trends: when an object will be full, from the looks at it.

What is certain of the past is said of the future, and no more:

- A trend takes three looks over a day, and looks ahead twice as far as it looks back.
- Its pace is that of its slower half: a single step, such as an import of data, is none.
- A fall is a cleanup. What was cleaned up once may be again, so until the object is clearly fuller than ever
  before, no trend is known. Otherwise every cleaned-up volume would be full soon.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from statistics import median

from msgspec import Struct

from reconciler.core.words import in_words
from reconciler.kinds.roles import Look

Point = tuple[datetime, int]

_RECENT = timedelta(days=90)  # older looks say little about the next weeks
_MOST_POINTS = 60  # each is compared with all others
_LEAST_POINTS, _LEAST_SPAN = 3, timedelta(days=1)
_AHEAD = 2
_FALL = 0.05  # of the size: less is noise
_FULLER = 0.1  # of the size: cleanups do not come at one exact level
_LONGEST_S = timedelta(days=365_000).total_seconds()


class Trend(Struct, frozen=True):
    """`last`: the newest look. `pace`: bytes a second. `since`, `until`: how far it looks back and ahead."""

    last: Point
    pace: float
    since: datetime
    until: datetime

    def full_at(self, limit: int, until: datetime | None = None) -> datetime | None:
        """When it has `limit` bytes in it; None: not `until` then, or not as far as it looks ahead."""
        when = full_at(self.last, limit, self.pace)
        return when if when is not None and when <= min(self.until, until or self.until) else None

    def used_at(self, at: datetime) -> float:
        """How many bytes it will have in it, as far as it looks ahead."""
        ahead_s = (min(at, self.until) - self.last[0]).total_seconds()
        return self.last[1] + max(self.pace * ahead_s, 0.0)


def recent(looks: Sequence[Look], measure: str) -> list[Point]:
    """The amounts of the last time that are known, oldest first, as `looks` are."""
    points = [(look.at, amount) for look in looks if (amount := getattr(look, measure)) is not None]
    return [point for point in points if points[-1][0] - point[0] <= _RECENT]


def trend_of(looks: Sequence[Look]) -> Trend | None:
    """Return the trend of the used bytes; None: no trend is known. `looks`: oldest first."""
    points = _without_odd(recent(looks, "used_bytes"))
    total = next((look.total_bytes for look in reversed(looks) if look.total_bytes), 0)
    falls = (
        number
        for number, ((_, before), (_, after)) in enumerate(pairwise(points), 1)
        if before - after > _FALL * total
    )
    first = max(falls, default=0)
    earlier, points = points[:first], points[first:]
    if len(points) < _LEAST_POINTS or points[-1][0] - points[0][0] < _LEAST_SPAN:
        return None
    (since, _), last = points[0], points[-1]
    if earlier and last[1] < max(used for _, used in earlier) + _FULLER * total:
        return None
    middle = len(points) // 2
    slower = min(pace(points[: middle + 1]) or 0.0, pace(points[middle:]) or 0.0)
    return Trend(last, slower, since, last[0] + _AHEAD * (last[0] - since))


def _without_odd(points: Sequence[Point]) -> Sequence[Point]:
    """The points, without a single one that is off: each has the middle level of three."""
    threes = zip(points, points[1:], points[2:], strict=False)
    middles = [(three[1][0], sorted(used for _, used in three)[1]) for three in threes]
    return [*points[:1], *middles, *points[-1:]]


def pace(points: Sequence[Point]) -> float | None:
    """Bytes a second: the median of the slopes between all pairs of points (Theil and Sen).

    A few odd points change nothing. None for less than two moments.
    """
    points = points[:: len(points) // _MOST_POINTS + 1]
    slopes = [
        (more - less) / (later - earlier).total_seconds()
        for (earlier, less), (later, more) in combinations(points, 2)
        if later > earlier
    ]
    return median(slopes) if slopes else None


def full_at(now: Point, limit: int, pace: float) -> datetime | None:
    """The time when `limit` is reached at `pace`; None where it never is, or not in a thousand years."""
    at, amount = now
    if amount >= limit:
        return at
    if pace <= 0 or (limit - amount) / pace > _LONGEST_S:
        return None
    return at + timedelta(seconds=(limit - amount) / pace)


def when_full(trend: Trend | None, limit: int) -> str:
    """Return in words when an object will have `limit` bytes in it."""
    if trend is None:
        return "no trend known"
    back = in_words((trend.last[0] - trend.since).total_seconds())
    if (when := trend.full_at(limit)) is not None:
        return f"at the pace of its last {back}, it is full on {when:%Y-%m-%d}"
    return f"at the pace of its last {back}, it is not full before {trend.until:%Y-%m-%d}"
