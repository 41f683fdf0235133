"""Trends: the fill of objects in earlier runs, and the time when they will be full at that pace."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from statistics import median
from typing import Any

from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import FillsUp
from reconciler.project.project import Project
from reconciler.rehearsal.results import Item
from reconciler.state.store import Event, JournalEntry

MOST_POINTS = 60  # the newest ones: each is compared with all others
RECENT = timedelta(days=90)  # older points say little about the next weeks
GIB = 1024**3

Point = tuple[datetime, int]


async def full_soon(
    project: Project,
    resources: Sequence[Resource],
    records: Mapping[Address, StateRecord],
    seen: Mapping[Read, Observation],
    begin: datetime,
    at: datetime,
) -> AsyncIterator[Item]:
    """Yield the objects that reach the upper end of their range until `at`, and those without a trend."""
    kinds = find_kinds()
    ranged = [
        (resource.address, records[resource.address].id, role, most_gb)
        for resource in resources
        if (role := kinds[resource.address.kind].role(FillsUp)) is not None
        and (most_gb := role.most_gb(resource.spec)) is not None
        and resource.address in records
    ]
    if not ranged:
        return
    journal = await project.store.journal(since=begin - RECENT)
    live = {item.id: item for observation in seen.values() for item in observation.objects}
    for address, id, role, most_gb in ranged:
        now: Mapping[str, Any] = role.fill(live[id].model_dump()) if id in live else {}
        recorded = recorded_fill(journal, role)
        paces = {name: pace(recorded.get((id or "", name), ())) for name in now}
        if not any(speed is not None for speed in paces.values()):
            yield Item(address, "no trend known: no two runs have recorded how full it was", None)
        for name, speed in paces.items():
            when = full_at((begin, now[name]), most_gb * GIB, speed) if speed is not None else None
            if speed is not None and when is not None and when <= at:
                a_day = f"{speed * 86400 / GIB:.1f} GB more a day"
                what = f"its {name} reaches {most_gb} GB, the upper end of its range ({a_day})"
                yield Item(address, what, when)


def recorded_fill(
    journal: Iterable[tuple[str, JournalEntry]], role: FillsUp
) -> Mapping[tuple[str, str], list[Point]]:
    """The observed amounts in bytes by id and measure, oldest first."""
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
    """Bytes a second: the median of the slopes between all pairs of points (Theil and Sen).

    A few odd points change nothing. None for less than two moments.
    """
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
    if pace <= 0 or (limit - amount) / pace > timedelta(days=365_000).total_seconds():
        return None
    return at + timedelta(seconds=(limit - amount) / pace)
