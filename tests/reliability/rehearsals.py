"""Rehearsals against what really happens: random worlds and plans, each prediction played in production.

    python -m tests.reliability.rehearsals --worlds 1000

Production is a second sandbox behind a line of its own, which shares no code with the twin's but the sandbox:
one call suffers the fault there, and up to three applies follow. It must end as the rehearsal said, with
the same work owed; and the rehearsal must have changed nothing on the first one.
"""

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import click
from anyio import to_thread

from reconciler.approvals.creates import Everything
from reconciler.cli.apply import exit_code
from reconciler.cli.verb import DECIDE, FAILED, PENDING, code_of
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import Diagnosed, Lost
from reconciler.core.model import Action, Address, Observation, Owed, StateRecord, owed_work
from reconciler.core.steps import Plan, Read
from reconciler.moves.compare import only_left
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.project.plan import make_plan
from reconciler.project.run import Applied, run_plan
from reconciler.rehearsal.cells import play
from reconciler.rehearsal.rehearse import original_of
from reconciler.rehearsal.results import CALL_FAULTS, NONE
from reconciler.rehearsal.twin import Original
from reconciler.services.transport import Answer
from reconciler.state.store import JournalEntry, Lease, Store
from tests.cli.harness import cluster, secret, volume
from tests.execution.stage import Line, Permitted, Stage, Time, loaded
from tests.reliability.proof import SHELF, Verdict, judge_seeds
from tests.state.doubles import spooling

CELLS = 3  # of each world, besides the clean run
APPLIES = 3
BETWEEN_S = 60.0


@dataclass(frozen=True, slots=True)
class World:
    """What there is, and what is then declared. All of it follows from the seed."""

    before: str
    after: str
    switches: Mapping[str, Any]
    capabilities: frozenset[str]
    held: tuple[str, ...]


def drawn(seed: int) -> World:
    rng = random.Random(f"rehearsal {seed}")
    names = [f"v{number}" for number in range(rng.randint(1, 4))]
    old = [name for name in names if rng.random() < 0.6]
    sizes = {name: rng.randint(3, 20) for name in names}
    retention = {name: rng.choice([5, 5, 14]) for name in names}
    secrets = [f"S{number}" for number in range(rng.randint(0, 2))]
    known = [name for name in secrets if rng.random() < 0.5]
    has_cluster = rng.random() < 0.4
    before = "".join(_volume(name, sizes[name], retention[name]) for name in old)
    before += "".join(secret("shop", name, "env: PASSWORD") for name in known)
    grown = {name: sizes[name] + rng.choice([0, 0, 5]) for name in names}
    kept = {name: rng.choice([retention[name], retention[name], 21]) for name in names}
    held = tuple(name for name in old if rng.random() < 0.3)
    gone = {name for name in old if name not in held and rng.random() < 0.2}
    after = "".join(_volume(name, grown[name], kept[name]) for name in names if name not in gone)
    after += "".join(secret("shop", name, f"env: {rng.choice(['PASSWORD', 'OTHER'])}") for name in secrets)
    if has_cluster:
        after += cluster("orders")
        before += cluster("orders") if rng.random() < 0.5 else ""
    switches = {
        "extend_needs_restart": rng.choice(["attached", "always", "never"]),
        "nulls": rng.choice(["shown", "missing"]),
        "attached_none": rng.choice(["null", "missing", "empty"]),
    }
    wanted = [each for each in _CAPABILITIES if rng.random() < 0.5]
    return World(before, after, switches, frozenset(wanted), held)


_CAPABILITIES = ("machine.get", "machine.restart", "postgres.list", "secrets.list", "volume.get")


def _volume(name: str, size_gb: int, days: int) -> str:
    spec = f"region: ams, size_gb: {size_gb}, snapshot_retention: {days}"
    return volume("shop", name, spec, "lifecycle: {deletion: delete, restart: auto}\n")


async def stage_of(world: World, root: Path, time: Time | None = None) -> Stage:
    """The world before the plan."""
    stage = Stage(root, time or Time())
    stage.env |= {"OTHER": "another value"}
    stage.capabilities = world.capabilities
    stage.limit(concurrency=1)  # which other calls are on their way at a kill is a matter of moments
    stage.sandbox.set_switches(world.switches)
    await stage.time.sleep(BETWEEN_S)  # its app may not be known at first
    if world.before:
        await stage.apply(world.before)
    ids = {each["name"]: each["id"] for each in stage.volumes()}
    for name in [name for name in world.held if name in ids]:  # no room for it, maybe
        stage.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": [ids[name]]})
    await stage.time.sleep(BETWEEN_S)  # what lags is over
    stage.line.sent.clear()
    return stage


# --- production ---


class Killed(BaseException):
    """The program is gone."""


class Mortal(Store):
    """The state, in which a program that is gone writes nothing more."""

    alive = True

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        if not self.alive:
            raise Killed
        return await self.inner.commit(lease, entries, put, remove)


class Struck(Line):
    """The line on which one call of a step suffers a fault, the first time that it is sent."""

    def __init__(self, stage: Stage, plan: Plan, step: str, fault: str, store: Mortal) -> None:
        super().__init__(stage.sandbox)
        self._store = store
        self._time = stage.time
        self._call = next((each.call for each in plan.steps if each.id == step), None)
        self._fault = fault
        self.struck = False

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        ask = partial(super().request, method, url, headers=headers, body=body, deadline_s=deadline_s)
        if not self._hits(method, url, body):
            return await ask()
        self.struck = True
        if self._fault in ("lost_after", "error_after", "slow", "killed"):
            await ask()
        else:
            self.sent.append((method, urlsplit(url).path))
        match self._fault:
            case "error_after":
                return Answer(502, {}, b'{"error":"bad gateway"}')
            case "refused_412":
                return Answer(412, {}, b'{"error":"precondition failed"}')
            case "limited_429":
                return Answer(429, {"retry-after": "7"}, b'{"error":"too many requests"}')
            case "slow":
                await self._time.sleep(deadline_s)
            case "killed":
                self._store.alive = False
                raise Killed
        raise Lost("cut")

    def _hits(self, method: str, url: str, body: bytes | None) -> bool:
        call = self._call
        if call is None or self.struck or method != call.method or not url.endswith(str(call.path)):
            return False
        name = (call.body or {}).get("name")
        return name is None or (body is not None and json.loads(body).get("name") == name)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. `code`: as the command line would exit."""

    code: int
    is_rest: bool = False


async def _ended(work: Awaitable[Applied]) -> Ended:
    try:
        applied = await work
    except Diagnosed as refused:
        return Ended(code_of(refused.diagnostics, FAILED))
    except (Killed, BaseExceptionGroup):
        return Ended(PENDING)
    quiet = (Action.RETAIN, Action.NOOP)
    plan = applied.plan
    records = not all(map(only_left, plan.bindings))
    busy = plan.steps or records or any(change.action not in quiet for change in plan.changes)
    return Ended(exit_code(applied), not busy and not has_errors((*plan.diagnostics, *applied.notices)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """`owed`: the work. `sent`: how many calls of each method, refused and lost ones too."""

    end: str
    owed: tuple[str, ...]
    sent: Mapping[str, int]


def owed_words(owed: Sequence[Owed]) -> tuple[str, ...]:
    return tuple(sorted(f"{each.address} {each.work} {each.certainty}" for each in owed))


async def really(world: World, root: Path, step: str, fault: str, *, must_strike: bool = True) -> Outcome:
    """How it ends when production suffers `fault`. `must_strike`: the call is sent there, too."""
    stage = await stage_of(world, root)
    desired = Desired(loaded(stage, world.after))
    plan = await make_plan(stage.project(), desired)
    deletes = [str(change.address) for change in plan.changes if change.action is Action.DELETE]
    honest, mortal = stage.line, Mortal(stage.store.inner)
    stage.line, stage.store = Struck(stage, plan, step, fault, mortal), spooling(mortal, stage.time, root)
    run = run_plan(stage.project(), plan, approved_deletes=deletes, resources=desired.by_address)
    ended = await _ended(run)
    assert not must_strike or stage.line.struck == (fault != NONE), f"{step} was never sent"
    honest.sent += stage.line.sent
    stage.line = honest
    for _ in range(APPLIES):
        await stage.time.sleep(BETWEEN_S)
        await stage.store.close()  # as an operating system does for a process that is gone
        stage.store = spooling(mortal.inner, stage.time, root)
        again = apply(
            stage.project(),
            desired,
            approve=lambda plan: True,
            approved_deletes=Permitted(deletes),
            approved_creates=Everything(),
        )
        ended = await _ended(again)
        if ended.is_rest:
            break
    owed = owed_work((await stage.store.load()).records)
    await stage.close()
    return Outcome(_word(ended), owed_words(owed), Counter(honest.mutations))


def _word(ended: Ended) -> str:
    if ended.is_rest:
        return "converged"
    return {DECIDE: "decision", FAILED: "failed"}.get(ended.code, "pending")


# --- both ---


def compared(seed: int) -> Verdict:
    """`wrong`: each prediction that did not come true; `counts`: how many cells ended so."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-", dir=SHELF) as folder:
        return anyio.run(_compared, seed, Path(folder))


async def _compared(seed: int, root: Path) -> Verdict:
    world = drawn(seed)
    original, wrong = await original_of_world(world, root)
    if has_errors(original.plan.diagnostics):  # nothing carries it out
        return Verdict(seed, tuple(wrong), {"not played": 1})
    rng = random.Random(f"cells {seed}")
    clean = await to_thread.run_sync(play, original, "", NONE)
    steps = sorted({each.step for each in clean.sent})
    cells = [("", NONE), *((rng.choice(steps), rng.choice(CALL_FAULTS)) for _ in range(CELLS) if steps)]
    ends: Counter[str] = Counter()
    for number, (step, fault) in enumerate(dict.fromkeys(cells)):
        played = await to_thread.run_sync(play, original, step, fault) if step else clean
        wrong += [f"{step} {fault}: {each}" for each in played.differences]
        outcome = await really(world, root / f"production-{number}", step, fault)
        ends[outcome.end] += 1
        sent = Counter(each.method for each in played.sent)
        foretold = Outcome(played.cell.end, owed_words(played.cell.owed), sent)
        if foretold != outcome:
            wrong.append(f"{step} {fault}: the rehearsal said {foretold}, and it was {outcome}")
    return Verdict(seed, tuple(wrong), ends)


async def original_of_world(world: World, root: Path) -> tuple[Original, list[str]]:
    """What the twin begins with, and what was done to the live world for it."""
    stage = await stage_of(world, root / "live")
    desired, seen = Desired(loaded(stage, world.after)), dict[Read, Observation]()
    project = stage.project()
    plan = await make_plan(project, desired, on_answer=seen.__setitem__)
    original, _ = await original_of(project, desired, plan, seen, world.switches)
    wrong = [f"the live platform got {method}" for method in stage.line.mutations]
    await stage.close()
    return original, wrong


@click.command()
@click.option("--worlds", default=1000, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=1, show_default=True)
def command(worlds: int, seed: int, jobs: int) -> None:
    """Compare rehearsals with what really happens."""
    sys.exit(judge_seeds(compared, range(seed, seed + worlds), jobs, "rehearsals").end())


if __name__ == "__main__":
    command()
