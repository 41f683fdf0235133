"""Forecasts against what really happens: random worlds, whose clock is then really put forward.

    python -m tests.reliability.forecasts --worlds 500

Production is a second sandbox, made alike. Its clock is advanced by `POST /_sandbox/clock`, and what the plan
that is made there says is compared with the forecast, with its moments. The live one must not be changed.
"""

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import click

from reconciler.core.clock import Clock
from reconciler.core.diagnostics import has_errors
from reconciler.core.steps import Plan
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.run import run_plan
from reconciler.rehearsal.forecast import look_ahead
from reconciler.rehearsal.results import Forecast
from tests.execution.stage import Stage, loaded
from tests.reliability.proof import SHELF, Verdict, judge_seeds

DAY_S = 86_400
NEAR_S = 900  # so near to the moment that is asked about, seconds of an apply decide
_IGNORED = re.compile(r"`(?P<address>[^`]+)`: `(?P<field>\w+)` was ignored until (?P<until>[-\d]+)")


@dataclass(frozen=True, slots=True)
class World:
    """`before` is applied. Then come days with the applies of `runs`, and snapshots of volumes by name.

    `after`: what is planned then. `extend_gb`: by how much somebody else enlarges each volume a day.
    """

    before: str
    runs: tuple[tuple[float, str], ...]
    snapshots: tuple[tuple[float, str], ...]
    after: str
    ahead_s: float
    after_apply: bool
    extend_gb: int


def drawn(seed: int) -> World:
    """All of it follows from the seed."""
    rng = random.Random(f"forecast {seed}")
    names = [f"v{number}" for number in range(rng.randint(1, 3))]
    extend_gb = rng.choice([0, 0, 1, 2])
    sizes = {name: rng.randint(5, 12) for name in names}
    backed_up = {name: rng.random() < 0.5 for name in names}
    retention = {name: rng.randint(1, 12) for name in names}
    most = {name: sizes[name] + 6 * extend_gb + rng.randint(1, 30) for name in names}
    ends = {name: rng.randint(1, 30) if rng.random() < 0.5 else 0 for name in names}
    limit_h = rng.choice([0, 30, 72, 168]) if not extend_gb else 0  # what is too large is refused
    policy = ""
    if limit_h:
        policy = (
            "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
            f"spec: {{selector: {{}}, snapshot_max_age_h: {limit_h}}}\n"
        )

    def manifests(days: Mapping[str, int]) -> str:
        found = policy
        for name in names:
            size = f"{{min: {sizes[name]}, max: {most[name]}}}" if extend_gb else sizes[name]
            found += (
                f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: shop}}\n"
                f"spec: {{region: ams, size_gb: {size}, snapshot_retention: {days[name]}, "
                f"auto_backup_enabled: {str(backed_up[name]).lower()}}}\n"
            )
            if ends[name]:
                until = date(2026, 1, 1) + timedelta(days=ends[name])
                found += f"lifecycle: {{ignore: [{{field: fstype, reason: why, until: {until}}}]}}\n"
        return found

    runs, days = [], dict(retention)
    for number in range(rng.randint(0, 4)):
        days = {name: each % 12 + 1 for name, each in days.items()}
        runs.append((DAY_S * (number + 1) + rng.uniform(0, 3600), manifests(days)))
    taken = sorted((rng.uniform(0, 5 * DAY_S), rng.choice(names)) for _ in range(rng.randint(0, 3)))
    changed = {name: rng.choice([each, each % 12 + 1]) for name, each in days.items()}
    return World(
        manifests(retention),
        tuple(runs),
        tuple(taken),
        manifests(changed),
        rng.uniform(3600, 40 * DAY_S),
        rng.random() < 0.5,
        extend_gb,
    )


async def stage_of(world: World, root: Path) -> Stage:
    stage = Stage(root)
    await stage.apply(world.before)
    stage.sandbox.set_switches({"auto_extend_gb": world.extend_gb})
    events: list[tuple[float, str, str]] = [(at, "apply", text) for at, text in world.runs]
    events += [(at, "snapshot", name) for at, name in world.snapshots]
    for at, what, text in sorted(events):
        await stage.time.sleep(max(0.0, at - stage.time.elapsed_s))
        if what == "apply":
            await stage.apply(text)
        else:
            ids = {each["name"]: each["id"] for each in stage.volumes()}
            stage.call("POST", f"/v1/apps/shop/volumes/{ids[text]}/snapshots", {})
            await stage.time.sleep(120)
    await stage.time.sleep(max(0.0, 6 * DAY_S + 7000 - stage.time.elapsed_s))
    stage.line.sent.clear()
    return stage


# --- what is said ---

Said = tuple[str, str]  # address, and what happens, without ids


def foretold(forecast: Forecast) -> dict[Said, datetime | None]:
    return {
        (str(item.address), re.sub(r"(expires?): .*|\(\d.*", r"\1", item.what).strip()): item.when
        for item in forecast.items
    }


# --- what is so ---


class _Ahead:
    """Our clock, once as much time has gone by here as on the platform."""

    def __init__(self, clock: Clock, by: timedelta) -> None:
        self._clock, self._by = clock, by

    def now(self) -> datetime:
        return self._clock.now() + self._by

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The sandbox's own view, past its API: volumes by name, finished snapshots by volume."""

    at: datetime
    volumes: Mapping[str, Mapping[str, Any]]
    snapshots: Mapping[str, Sequence[Mapping[str, Any]]]


def _seen(stage: Stage) -> _Seen:
    shown = stage.call("GET", "/_sandbox/world", {})
    volumes = {each["name"]: each for each in shown["volumes"]}
    finished = [each for each in shown["snapshots"] if each["status"] == "created"]
    by_volume = {
        name: [each for each in finished if each["volume_id"] == volume["id"]]
        for name, volume in volumes.items()
    }
    at = datetime.fromisoformat(stage.call("GET", "/_sandbox/clock", {})["now"])
    return _Seen(at, volumes, by_volume)


async def happened(world: World, stage: Stage, at: datetime) -> dict[Said, datetime | None]:
    """What there is at `at` that is not there now."""
    desired = Desired(loaded(stage, world.after))
    first = await make_plan(stage.project(), desired)
    if world.after_apply:
        await run_plan(stage.project(), first, approved_deletes=(), resources=desired.by_address)
    before = _seen(stage)
    by = at - stage.time.now()
    stage.call("POST", "/_sandbox/clock", {"advance_s": by.total_seconds()})
    then = await make_plan(replace(stage.project(), clock=_Ahead(stage.time, by)), desired)
    after = _seen(stage)
    found = dict(_of_plan(first, then, desired, before, after))
    found.update(_of_snapshots(before, after))
    if world.extend_gb:
        found.update(_of_sizes(world, desired, before))
    return found


def _of_plan(
    first: Plan, then: Plan, desired: Desired, before: _Seen, after: _Seen
) -> Iterator[tuple[Said, datetime | None]]:
    known = {each.message for each in first.diagnostics}
    for each in then.diagnostics:
        told = _IGNORED.match(each.message)
        if told is not None and each.message not in known:
            until = date.fromisoformat(told["until"])
            over = datetime(until.year, until.month, until.day, tzinfo=UTC) + timedelta(days=1)
            what = f"`{told['field']}` is compared again, ignored until {until} (why)"
            yield (told["address"], what), over
    for change in then.changes:
        found = re.search(
            r"no usable snapshot from the last (\d+) h(, but one is being taken)?", change.reason
        )
        if found is None or found[2]:
            continue
        snapshots = [*before.snapshots[change.address.name], *after.snapshots[change.address.name]]
        times = [datetime.fromisoformat(each["created_at"]) for each in snapshots]
        made = datetime.fromisoformat(after.volumes[change.address.name]["created_at"])
        limit_h = int(found[1])  # without a snapshot, the age of the volume counts, up to a day
        due = max(times) + timedelta(hours=limit_h) if times else made + timedelta(hours=min(limit_h, 24))
        if due > before.at:
            yield (str(change.address), f"the objective `snapshot_max_age_h: {found[1]}` is missed"), due


def _of_snapshots(before: _Seen, after: _Seen) -> Iterator[tuple[Said, datetime | None]]:
    for name, had in before.snapshots.items():
        left = {each["id"] for each in after.snapshots[name]}
        gone = [each for each in had if each["id"] not in left]
        ends = [
            datetime.fromisoformat(each["created_at"]) + timedelta(days=each["retention_days"])
            for each in gone
        ]
        if gone:
            what = "1 snapshot expires" if len(gone) == 1 else f"{len(gone)} snapshots expire"
            yield (f"Volume/shop/{name}", what), min(ends)
        if gone and not left:
            yield (f"Volume/shop/{name}", "no usable snapshot is left"), max(ends)


def _of_sizes(world: World, desired: Desired, before: _Seen) -> Iterator[tuple[Said, datetime | None]]:
    """Each grows by whole GB at the end of its day; the trend says when, to within a day."""
    for resource in desired.resources:
        address, most = str(resource.address), resource.spec.size_gb.max
        if len(world.runs) < 2:
            yield (address, "no trend known: no two runs have recorded how full it was"), None
            continue
        days = (most - before.volumes[resource.address.name]["size_gb"]) / world.extend_gb
        what = f"its size reaches {most} GB, the upper end of its range"
        yield (address, what), before.at + timedelta(days=days)


# --- both ---


def compared(seed: int) -> Verdict:
    """`wrong`: what was not as foretold. `counts`: how much was foretold of what."""
    with tempfile.TemporaryDirectory(prefix="forecast-", dir=SHELF) as folder:
        return anyio.run(_compared, seed, Path(folder))


async def _compared(seed: int, root: Path) -> Verdict:
    world = drawn(seed)
    live = await stage_of(world, root / "live")
    at = live.time.now() + timedelta(seconds=world.ahead_s)
    desired = Desired(loaded(live, world.after))
    plan, _, forecast = await look_ahead(live.project(), desired, at=at, after_apply=world.after_apply)
    wrong = [f"the live platform got {method}" for method in live.line.mutations]
    await live.close()
    if has_errors(plan.diagnostics) or forecast is None:
        return Verdict(seed, tuple(wrong), {"not played": 1})
    production = await stage_of(world, root / "production")
    real = await happened(world, production, at)
    await production.close()
    said = foretold(forecast)
    wrong += _differences(said, real, at, trend_s=1.5 * DAY_S)
    return Verdict(seed, tuple(wrong), Counter(_sort(what) for _, what in said))


def _sort(what: str) -> str:
    words = {"objective": "objectives", "compared": "ignores", "reaches": "sizes", "trend": "no trend"}
    return next((sort for word, sort in words.items() if word in what), "snapshots")


def _differences(
    said: Mapping[Said, datetime | None], real: Mapping[Said, datetime | None], at: datetime, trend_s: float
) -> Iterator[str]:
    for key in sorted({*said, *real}):
        is_trend = "reaches" in key[1]
        near_s = trend_s if is_trend else NEAR_S
        when = said.get(key) or real.get(key)
        if when is not None and abs((when - at).total_seconds()) <= near_s:
            continue
        if is_trend and key not in said and when is not None and when > at:
            continue
        if key not in said or key not in real:
            yield f"{key} was {'not foretold' if key not in said else 'foretold'}: {when}, asked for {at}"
            continue
        moments = [each.timestamp() for each in (said[key], real[key]) if each is not None]
        if len(moments) == 1 or (moments and abs(moments[0] - moments[1]) > near_s):
            yield f"{key}: foretold for {said[key]}, and it was {real[key]}"


@click.command()
@click.option("--worlds", default=500, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=1, show_default=True)
def command(worlds: int, seed: int, jobs: int) -> None:
    """Compare forecasts with what really happens."""
    sys.exit(judge_seeds(compared, range(seed, seed + worlds), jobs, "forecasts").end())


if __name__ == "__main__":
    command()
