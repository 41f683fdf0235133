"""Rehearsals of a platform that does not do as the twin: each miss must rest on an assumption that was named.

    python -m tests.reliability.unshown --worlds 1000

Production plays random settings of what the API document leaves open, the twin its defaults. Where they end
differently, the twin is asked again with production's setting of what the report names, and of nothing else:
then it must be right. Divergences that are planted must be reported as differences.
"""

import dataclasses
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import click
from anyio import to_thread
from msgspec.structs import replace

from reconciler.core.diagnostics import has_errors
from reconciler.rehearsal.cells import Played, play
from reconciler.rehearsal.results import CALL_FAULTS, NONE
from reconciler.rehearsal.twin import Original, assumptions
from reconciler.sandbox.switches import SWITCHES
from tests.reliability.proof import SHELF, Verdict, judge_seeds, side_by_side
from tests.reliability.rehearsals import Outcome, World, drawn, original_of_world, owed_words, really

CELLS = 2  # of each world, besides the clean run
_NUMBERS: Mapping[str, tuple[float, ...]] = {
    "auto_extend_gb": (0, 1),
    "detach_lag_s": (0, 30),
    "new_app_404_s": (0, 5),
    "pitr_window_days": (7, 1),
    "read_lag_s": (0, 10),
    "suspending_s": (10, 45),
    "zones_per_region": (5, 1, 2),
}
# What depends on the same behaviour as an assumption, or comes with it.
_NAMED_BY = {
    "cluster_create": "cluster_outcome",
    "nulls": "attached_none",
    "retry_after": "rate_limit",
    "zones_used_up": "zones_per_region",
}


def covered(assumption: str) -> frozenset[str]:
    """The switches that an assumption speaks for."""
    return frozenset({assumption, *(name for name, by in _NAMED_BY.items() if by == assumption)})


def settings(seed: int) -> dict[str, Any]:
    """Some of all switches, set to something else than their defaults."""
    rng = random.Random(f"unshown {seed}")
    found = {}
    for name, switch in SWITCHES.items():
        values = switch.allowed or _NUMBERS[name]
        if rng.random() < 0.25:
            found[name] = rng.choice(values)
    return found


UNNAMED = "unnamed: "


def compared(seed: int) -> Verdict:
    """`wrong`: misses that rest on nothing that was named (`UNNAMED`), or though all settings were the same.

    `counts`: predicted ends, those that were missed, and on which assumption these rest.
    """
    with tempfile.TemporaryDirectory(prefix="unshown-", dir=SHELF) as folder:
        return anyio.run(_compared, seed, Path(folder))


async def _compared(seed: int, root: Path) -> Verdict:
    world = dataclasses.replace(drawn(seed), switches=settings(seed))
    original, wrong = await original_of_world(world, root)
    if has_errors(original.plan.diagnostics):
        return Verdict(seed, tuple(wrong), {})
    blind = replace(original, switches={})
    rng = random.Random(f"cells {seed}")
    clean = await _played(blind, "", NONE)
    steps = sorted({each.step for each in clean.sent})
    cells = [("", NONE), *((rng.choice(steps), rng.choice(CALL_FAULTS)) for _ in range(CELLS) if steps)]
    asked, counts = set(clean.asked), Counter({"ends": len(cells)})
    for number, (step, fault) in enumerate(dict.fromkeys(cells)):
        played = await _played(blind, step, fault) if step else clean
        asked |= played.asked
        real = _shown(await really(world, root / f"production-{number}", step, fault, must_strike=False))
        if _told(played) == real:
            continue
        counts["misses"] += 1
        names = [each.name for each in assumptions(asked)]
        told = _settings_of(names, world)
        again = await _played(replace(original, switches=told), step, fault)
        if _told(again) == real:
            counts.update(f"misses on {name}" for name in names if covered(name) & set(world.switches))
            continue
        same = await _played(original, step, fault)
        text = f"{step} {fault}: said {_told(played)}, with what is named {_told(again)}, and it was {real}"
        if _told(same) == real:
            wrong.append(f"{UNNAMED}{text}; settings {world.switches}, named {names}")
        else:
            wrong.append(f"{text}; with the same settings {_told(same)}")
    return Verdict(seed, tuple(wrong), counts)


# --- planted divergences ---


def planted(seed: int) -> Mapping[str, tuple[str, ...]]:
    """What a rehearsal tells of each divergence of the twin from the platform that its plan relies on."""
    with tempfile.TemporaryDirectory(prefix="planted-", dir=SHELF) as folder:
        return anyio.run(_planted, seed, Path(folder))


async def _planted(seed: int, root: Path) -> Mapping[str, tuple[str, ...]]:
    original, _ = await original_of_world(dataclasses.replace(drawn(seed), switches={}), root)
    if has_errors(original.plan.diagnostics):
        return {}
    return {name: (await _played(other, "", NONE)).differences for name, other in _divergences(original)}


def _divergences(original: Original) -> Iterator[tuple[str, Original]]:
    calls = [(step.call.method, str(step.call.path)) for step in original.plan.steps]
    volumes = original.seed.get("volumes", [])
    if ("POST", "/v1/apps/shop/volumes") in calls:
        yield "no room", replace(original, switches={"placement": "insufficient_capacity"})
    if ("POST", "/v1/postgres") in calls:
        yield "a cluster fails", replace(original, switches={"cluster_outcome": "failed"})
    for at, each in enumerate(volumes):
        rest = [*volumes[:at], *volumes[at + 1 :]]
        used = any(each["id"] in path for method, path in calls if method != "GET")
        if used and not each.get("attached_machine_id"):
            without = [one for one in original.seed.get("snapshots", []) if one["volume_id"] != each["id"]]
            gone = {**original.seed, "volumes": rest, "snapshots": without}
            yield f"{each['name']} is gone", replace(original, seed=gone)
        if ("PUT", f"/v1/apps/shop/volumes/{each['id']}/extend") in calls:
            larger = {**each, "size_gb": each["size_gb"] + 100}
            yield (
                f"{each['name']} grew",
                replace(original, seed={**original.seed, "volumes": [*rest, larger]}),
            )


def _settings_of(names: list[str], world: World) -> dict[str, Any]:
    known = {switch for name in names for switch in covered(name)}
    return {name: value for name, value in world.switches.items() if name in known}


async def _played(original: Original, step: str, fault: str) -> Played:
    return await to_thread.run_sync(play, original, step, fault)


def _told(played: Played) -> tuple[str, tuple[str, ...]]:
    return played.cell.end, owed_words(played.cell.owed)


def _shown(outcome: Outcome) -> tuple[str, tuple[str, ...]]:
    return outcome.end, outcome.owed


@click.command()
@click.option("--worlds", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=1, show_default=True)
def command(worlds: int, seed: int, jobs: int) -> None:
    """Look for misses of rehearsals that rest on no assumption that was named, and plant divergences."""
    seeds = range(seed, seed + worlds)
    tally = judge_seeds(compared, seeds, jobs, "unshown")
    for number, told in zip(seeds, side_by_side(planted, seeds, jobs), strict=True):
        tally.counts["planted divergences"] += len(told)
        for name in [name for name, found in told.items() if not found]:
            tally.violations.append(f"seed {number}: {name}, and no difference was reported")
    sys.exit(tally.end())


if __name__ == "__main__":
    command()
