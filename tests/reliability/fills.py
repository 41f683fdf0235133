"""Proposed sizes against what volumes really need: random histories whose future is known.

    python -m tests.reliability.fills --histories 1000

A history is drawn with its future: it fills on a line, in steps, or like a saw after cleanups, all of them
with noise, gaps and odd looks. `reconcile forecast` gets the looks so far. An oracle has the future, too: a
proposal may not be more than one step away from the size that is enough for the time that it is about, and is
never beyond the range.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec.structs import replace

from reconciler.core.diagnostics import Span
from reconciler.core.model import ALERT_AT, Address, Lifecycle, Path, Resource
from reconciler.core.percents import Grow
from reconciler.drift.outlook import Outlook, outlook_of
from reconciler.kinds.roles import Look
from reconciler.kinds.volume.kind import VolumeKind

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
SHAPES = ("line", "steps", "one step", "saw", "one cleanup", "still")
Level = Callable[[float], float]  # GB in use, by days since the beginning


@dataclass(frozen=True)
class History:
    """`level`: what is really in use. `looks`: those until the day `now`. `within`: days ahead."""

    shape: str
    resource: Resource
    level: Level
    looks: Sequence[Look]
    now: float
    within: float


def drawn(seed: int) -> History:
    """All of it follows from the seed."""
    rng = random.Random(f"fills {seed}")
    shape, size_gb = SHAPES[seed % len(SHAPES)], rng.choice([3, 10, 50, 100, 1000])
    now, within = rng.choice([rng.uniform(0.5, 4), rng.uniform(4, 120)]), rng.choice([7.0, 30.0, 90.0])
    level = _level(rng, shape, size_gb, now)
    while now > 0.5 and level(now) > 0.97 * size_gb:  # before it is full, it is still to be told
        now *= 0.9
    noise = rng.choice([0.0, 0.0, 0.002, 0.01]) * size_gb
    total = size_gb * GIB * rng.choice([1.0, 0.98]) // 4096 * 4096
    looks = []
    day = rng.uniform(0, 0.25)
    while True:
        day = min(day, now)
        used = level(day) + rng.gauss(0, noise)
        if rng.random() < 0.02:
            used *= rng.choice([0.5, 1.02])  # an odd one
        used = min(max(used * GIB, 0), total)
        looks.append(Look(BEGIN + timedelta(days=day), size_gb, int(used), int(total), True))
        if day == now:  # the last look is of now: nobody can know of a cleanup that nobody saw
            break
        day += rng.uniform(0.25, 0.3) if rng.random() > 0.05 else rng.uniform(1, 5)
    sizes: list[Any] = [size_gb, {"min": size_gb, "max": round(size_gb * rng.uniform(1, 3))}]
    objectives = rng.choice([{}, {ALERT_AT: rng.choice([60, 80, 95])}])
    spec = VolumeKind.Spec.model_validate({"region": "ams", "size_gb": rng.choice(sizes)})
    resource = Resource(ADDRESS, spec, Lifecycle(), "a.yaml", WRITTEN, objectives=objectives)
    if not isinstance(spec.size_gb, int) and rng.random() < 0.2:
        resource = replace(resource, grow=GROW)
    return History(shape, resource, level, looks, now, within)


def _level(rng: random.Random, shape: str, size_gb: int, now: float) -> Level:
    begin = rng.uniform(0.2, 0.8) * size_gb
    a_day = rng.uniform(0.0005, 0.02) * size_gb
    if shape == "line":
        a_day *= rng.choice([1, 1, 1, -0.2])
        return lambda day: begin + a_day * day
    if shape == "still":
        return lambda day: begin
    if shape == "one step":
        at, height = rng.uniform(0, now), rng.uniform(0.05, 0.3) * size_gb
        return lambda day: begin + height * (day >= at)
    if shape == "steps":
        every = rng.uniform(0.1, 0.1 + now / 8)  # some in each half of what is seen
        return lambda day: begin + a_day * every * (day // every)
    bottom, top = rng.uniform(0.1, 0.4) * size_gb, rng.uniform(0.6, 0.97) * size_gb
    if shape == "one cleanup":
        at = rng.uniform(0, now)
        before = bottom + a_day * at
        return lambda day: before - a_day * (at - day) if day < at else before / 2 + a_day * (day - at)
    tops = [top * rng.uniform(0.92, 1.0) for _ in range(500)]  # nobody cleans up at the same level twice
    starts, start = list[tuple[float, float]](), 0.0
    for peak in tops:
        starts.append((start, peak))
        start += (peak - bottom) / a_day
    first = starts[1][0] - now * rng.uniform(0.1, 0.9)  # it was cleaned up at least once
    return lambda day: (
        bottom
        + a_day * (day + max(first, 0) - max(begin for begin, _ in starts if begin <= day + max(first, 0)))
    )


ADDRESS = Address("Volume", "data", "shop")
WRITTEN: Mapping[Path, Span] = dict.fromkeys(
    (("spec", "size_gb"), ("spec", "size_gb", "min")), Span("a.yaml", 1, 1, 2)
)
GROW = Grow.model_validate({"at": "85%", "by": "20%", "most_gb_per_day": 100})


def judged(history: History) -> tuple[Outlook, Sequence[str]]:
    """What is said of a history, and what is wrong with it."""
    until = BEGIN + timedelta(days=history.now + history.within)
    outlook = outlook_of(VolumeKind(), history.resource, "vol_1", history.looks, until)
    return outlook, list(_wrong(history, outlook, until))


def _wrong(history: History, outlook: Outlook, until: datetime) -> Iterator[str]:
    edit, trend, size = outlook.proposed, outlook.trend, history.resource.spec.size_gb
    if edit is None or trend is None:
        return
    most_gb = 100_000 if isinstance(size, int) else size.max
    value = int(edit.value)
    if value > most_gb:
        yield f"{value} GB is beyond {most_gb}"
    last = history.looks[-1]
    assert last.size_gb is not None
    assert last.total_bytes is not None
    about = (min(until, trend.until) - BEGIN) / timedelta(days=1)
    times = [history.now + (about - history.now) * part / 200 for part in range(201)]
    peak = max(map(history.level, times))
    room = last.total_bytes / GIB / last.size_gb * history.resource.objectives.get(ALERT_AT, 80) / 100
    sizes = [last.size_gb]
    while sizes[-1] < max(value, peak / room):
        sizes.append(sizes[-1] + -(-sizes[-1] // 5))
    enough = next(number for number, size_gb in enumerate(sizes) if peak < size_gb * room)
    proposed = next(number for number, size_gb in enumerate(sizes) if value <= size_gb)
    if abs(proposed - enough) > 1 and not (proposed < enough and value == most_gb):
        yield f"{value} GB are proposed, and {sizes[enough]} GB are enough for a peak of {peak:.1f} GB"


@click.command()
@click.option("--histories", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
def command(histories: int, seed: int) -> None:
    """Compare proposed sizes with what is enough."""
    told: Mapping[str, Counter[str]] = {shape: Counter() for shape in SHAPES}
    wrong = 0
    for number in range(seed, seed + histories):
        history = drawn(number)
        outlook, found = judged(history)
        for what in found:
            wrong += 1
            click.echo(f"seed {number} ({history.shape}): {what}")
        told[history.shape][_sort(outlook)] += 1
    for shape, counts in told.items():
        click.echo(f"{shape}: {', '.join(f'{count} {what}' for what, count in counts.most_common())}")
    click.echo(f"{histories} histories, {wrong} wrong")
    sys.exit(bool(wrong))


def _sort(outlook: Outlook) -> str:
    if outlook.trend is None:
        return "without a trend"
    if outlook.full is None:
        return "not full in that time"
    return "proposed" if outlook.proposed is not None else "full, and not to be edited"


if __name__ == "__main__":
    command()
