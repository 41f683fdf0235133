"""How full objects were when earlier runs saw them, and when they will be full at that pace."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from statistics import median
from typing import Any

from reconciler.kinds.roles import FillsUp
from reconciler.state.store import Event, JournalEntry

MOST_POINTS = 60  # the newest ones: each is compared with all others
RECENT = timedelta(days=90)  # what was long ago says little about the next weeks

Point = tuple[datetime, int]


def recorded_fill(
    journal: Iterable[tuple[str, JournalEntry]], role: FillsUp
) -> Mapping[tuple[str, str], list[Point]]:
    """By id and measure, what runs have seen, oldest first."""
    found: dict[tuple[str, str], dict[datetime, int]] = defaultdict(dict)
    for _, entry in journal:
        if entry.event is not Event.RUN_OBSERVED:
            continue
        objects = entry.data.get("objects", {})
        for read in entry.data.get("reads", ()):
            at = datetime.fromisoformat(read["at"])
            for digest in read["objects"]:
                fields: Mapping[str, Any] = objects[digest]
                for measure, amount in role.fill(fields).items():
                    found[str(fields.get("id")), measure][at] = amount
    return {key: sorted(points.items())[-MOST_POINTS:] for key, points in found.items()}


def pace(points: Sequence[Point]) -> float | None:
    """How much is added each second: the median of the slopes between all pairs of points, as Theil and Sen
    have it, so that a few odd points change nothing. None for less than two moments."""
    slopes = [
        (more - less) / (later - earlier).total_seconds()
        for (earlier, less), (later, more) in combinations(points, 2)
        if later > earlier
    ]
    return median(slopes) if slopes else None


def full_at(now: Point, limit: int, pace: float) -> datetime | None:
    """When `limit` is reached from `now` on at `pace`; None where it never is, or not in a thousand years."""
    at, amount = now
    if amount >= limit:
        return at
    if pace <= 0 or (limit - amount) / pace > timedelta(days=365_000).total_seconds():
        return None
    return at + timedelta(seconds=(limit - amount) / pace)
