"""Trends: how objects filled so far, and the time when they will be full at that pace."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from reconciler.core.model import Observation, Resource
from reconciler.core.steps import Read
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import FillsUp, Look
from reconciler.project.looks import recorded_looks
from reconciler.project.trends import MOST_POINTS, RECENT, Point, full_at, pace
from reconciler.rehearsal.results import Item
from reconciler.state.store import State

GIB = 1024**3


def full_soon(
    state: State,
    resources: Sequence[Resource],
    seen: Mapping[Read, Observation],
    begin: datetime,
    at: datetime,
) -> Iterator[Item]:
    """Yield the objects that reach the upper end of their range until `at`, and those without a trend."""
    kinds = find_kinds()
    live = {item.id: item for observation in seen.values() for item in observation.objects}
    for resource in resources:
        address, record = resource.address, state.records.get(resource.address)
        role = kinds[address.kind].role(FillsUp)
        if role is None or record is None or (most_gb := role.most_gb(resource.spec)) is None:
            continue
        looks = recorded_looks(state, address.kind, record.id)
        now = Look.of(live[record.id], begin) if record.id in live else Look(begin)
        paces = {name: pace(_points(looks, measure)) for name, measure in _MEASURES.items()}
        if all(speed is None for speed in paces.values()):
            yield Item(address, "no trend known: no two runs have recorded how full it was", None)
        for name, speed in paces.items():
            amount = getattr(now, _MEASURES[name])
            if speed is None or amount is None:
                continue
            when = full_at((begin, amount), most_gb * GIB, speed)
            if when is not None and when <= at:
                a_day = f"{speed * 86400 / GIB:.1f} GB more a day"
                what = f"its {name} reaches {most_gb} GB, the upper end of its range ({a_day})"
                yield Item(address, what, when)


_MEASURES = {"size": "total_bytes", "data": "used_bytes"}  # of an object, which must not exceed its range


def _points(looks: Sequence[Look], measure: str) -> list[Point]:
    """The newest amounts that are known of the last time, oldest first."""
    known = [(look.at, amount) for look in looks if (amount := getattr(look, measure)) is not None]
    return [point for point in known[-MOST_POINTS:] if known[-1][0] - point[0] <= RECENT]
