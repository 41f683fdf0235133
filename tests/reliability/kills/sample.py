"""Choosing some of the cases, so that they have as much as possible of what all of them have."""

import random
import re
from collections import Counter
from collections.abc import Sequence

from tests.reliability.kills.case import SIGNALS, Case

_STEP = re.compile(r"\S+#\S+(?=:\w+@)")


def class_of(point: str) -> str:
    """The point without its step: `commit:step.intent:before`, `POST:effect`, `poll:sent` (a step's GET)."""
    name, _, when = point.rpartition("@")[0].rpartition(":")
    if name.startswith("GET ") and step_of(point):
        return f"poll:{when}"
    return f"{name.partition(' ')[0]}:{when}"


def step_of(point: str) -> str:
    """`Volume/shop/data#create`; "" for a boundary of the whole run."""
    found = _STEP.search(point)
    return found.group() if found else ""


def every_case(points: Sequence[str]) -> list[Case]:
    return [Case(point, signal) for point in points for signal in SIGNALS]


def sampled(cases: Sequence[Case], size: int, seed: int) -> list[Case]:
    """`size` of the cases, or all when there are fewer.

    The next one is always one of those that bring most that no chosen one has yet: class of boundary, step,
    signal; and then most that the chosen ones have least of, these in pairs too. `seed` decides among equals.
    """
    left = list(cases)
    random.Random(seed).shuffle(left)
    chosen: list[Case] = []
    had: Counter[tuple[str, ...]] = Counter()
    while left and len(chosen) < size:
        best = max(left, key=lambda case: _gain(_features(case), had))
        left.remove(best)
        chosen.append(best)
        had.update(_features(best))
    return chosen


def _gain(features: Sequence[tuple[str, ...]], had: Counter[tuple[str, ...]]) -> tuple[int, float]:
    new = sum(not had[each] for each in features if len(each) == 2)
    return new, sum(1 / (1 + had[each]) ** 2 for each in features)


def _features(case: Case) -> list[tuple[str, ...]]:
    kind, step = class_of(case.point), step_of(case.point)
    return [
        ("class", kind),
        ("step", step),
        ("signal", case.signal),
        ("class, signal", kind, case.signal),
        ("step, signal", step, case.signal),
        ("class, step", kind, step),
    ]
