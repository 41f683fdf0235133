"""Random faulty runs, exported from their journal and played again: each replay has the run's own trace.

    python -m tests.reliability.exports --runs 200

The run itself is played on a sandbox behind a line of its own, which loses, refuses and delays calls at
random, and kills the program. The export knows the journal and the manifests only. Then a regression is
planted, and must be noticed by some of the cases.
"""

import asyncio
import itertools
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import anyio
import click

from reconciler.core.errors import Lost, ReconcilerError
from reconciler.evidence.case import Case, differences, read_case, write_case
from reconciler.evidence.export import NotExportable, export
from reconciler.evidence.replay import replay
from reconciler.execution import sending
from reconciler.execution.limits import Limits
from reconciler.execution.settling import Settlement
from reconciler.manifests.load import load
from reconciler.rehearsal.process import TwinStore
from reconciler.rehearsal.twin import TICK_S, Timeline
from reconciler.services.transport import Answer
from reconciler.state.runs import history_of
from reconciler.state.store import Event, JournalEntry, Store
from tests.execution.stage import START, Line, Permitted, Stage, Time, loaded
from tests.reliability.proof import SHELF, side_by_side
from tests.reliability.rehearsals import Killed, Mortal, World, drawn, stage_of

FAULTS = ("lost_before", "lost_after", "error_before", "error_after", "refused", "limited", "slow", "killed")
REFUSALS = (400, 403, 409, 412, 422)
LATENCY_S = 0.03
SHARE = 0.45  # of the calls that meet a fault


class Struck(Line):
    """The line on which calls meet faults, by draws that follow from the seed."""

    def __init__(self, stage: Stage, rng: random.Random, store: Mortal) -> None:
        super().__init__(stage.sandbox)
        self._time, self._rng, self._store = stage.time, rng, store
        self.met: list[str] = []

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if not self._store.alive:
            raise Killed
        await self._time.sleep(LATENCY_S)
        hit = method != "GET" and self._rng.random() < SHARE
        fault = self._rng.choice(FAULTS) if hit else ""
        if fault:
            self.met.append(fault)
        if fault in ("lost_after", "error_after", "slow") or (fault == "killed" and self._rng.random() < 0.5):
            await super().request(method, url, headers=headers, body=body, deadline_s=deadline_s)
        elif fault:
            self.sent.append((method, urlsplit(url).path))
        match fault:
            case "":
                return await super().request(method, url, headers=headers, body=body, deadline_s=deadline_s)
            case "error_before" | "error_after":
                return Answer(self._rng.choice((500, 502, 503)), {}, b'{"error":"bad gateway"}')
            case "refused":
                return Answer(self._rng.choice(REFUSALS), {}, b'{"error":"not like this"}')
            case "limited":
                wait_s = self._rng.choice(("2", "7", "120"))
                return Answer(429, {"retry-after": wait_s}, b'{"error":"too many requests"}')
            case "slow":
                await self._time.sleep(deadline_s)
            case "killed":
                self._store.alive = False
                raise Killed
        raise Lost("cut")


class LoopTime(Time):
    """A stage's time, later that of a loop: what is done at the same time takes no longer."""

    loop: Timeline | None = None

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self.elapsed_s + (self.loop.time() if self.loop is not None else 0.0)

    async def sleep(self, seconds: float) -> None:
        if self.loop is None:
            await super().sleep(seconds)
        else:
            await asyncio.sleep(max(seconds, TICK_S))


class Straight(TwinStore):
    """A store without a spool file, which a thread would read."""

    def __init__(self, inner: Store) -> None:
        Store.__init__(self, inner)

    commit = Store.commit


@dataclass(frozen=True, slots=True)
class Produced:
    """`journal`: of the one run that met the faults `met`, which is empty where it met none."""

    limits: Limits
    met: Sequence[str]
    entries: Sequence[tuple[str, JournalEntry]]


async def produced(stage: Stage, world: World, rng: random.Random) -> Produced:
    stage.limit(concurrency=rng.choice((1, 8)))
    before = {run for run, _ in await _runs(stage)}
    mortal = Mortal(stage.store.inner)
    honest, struck = stage.line, Struck(stage, rng, mortal)
    stage.line, stage.store = struck, Straight(mortal)
    await _apply(stage, world)
    new = [run for run, _ in await _runs(stage) if run not in before]
    if rng.random() < 0.5:  # what was left open is settled before the export
        await stage.time.sleep(60.0)
        await stage.store.close()
        stage.line, stage.store = honest, Straight(mortal.inner)
        await _apply(stage, world)
    journal = await mortal.inner.journal()
    await stage.close()
    entries = [each for each in journal if each[1].run in new]
    return Produced(stage.limits, struck.met, entries)


def exported(seed: int, root: Path) -> tuple[Case, Sequence[str]] | None:
    """The case of one run, and the faults that it met; None where it met none, or sent nothing.

    Raises NotExportable.
    """
    world, time = drawn(seed), LoopTime()
    stage = anyio.run(stage_of, world, root / "world", time)
    time.loop = Timeline()
    try:
        found = time.loop.run_until_complete(produced(stage, world, random.Random(f"export {seed}")))
    finally:
        time.loop.close()
    if not found.met or not any(entry.event is Event.INTENT for _, entry in found.entries):
        return None
    (run,) = history_of(found.entries).runs
    (root / "after.yaml").write_text(world.after, encoding="utf-8")
    given = load([str(root / "after.yaml")], root=root, keep=True)
    case = export(
        run,
        found.entries,
        given.effective,
        given.resources,
        capabilities=world.capabilities,
        limits=found.limits,
        rate_limit=None,
    )
    return case, found.met


async def _runs(stage: Stage) -> list[tuple[str, Event]]:
    journal = await stage.store.inner.journal()
    return [(entry.run, entry.event) for _, entry in journal if entry.event is Event.RUN_STARTED]


async def _apply(stage: Stage, world: World) -> None:
    wanted = {each.address for each in loaded(stage, world.after)}
    gone = [str(each.address) for each in loaded(stage, world.before) if each.address not in wanted]
    with suppress(ReconcilerError, Killed, BaseExceptionGroup):
        await stage.apply(world.after, approved_deletes=Permitted(gone))


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: why the run was not exported, or what its replay from the files did instead.

    `noticed`: its replay differs with the planted regression.
    """

    seed: int
    met: Sequence[str] = ()
    end: str = ""
    wrong: Sequence[str] = ()
    noticed: bool = False


def judged(seed: int) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="export-", dir=SHELF) as folder:
        root = Path(folder)
        try:
            found = exported(seed, root)
        except NotExportable as refused:
            return Verdict(seed, wrong=[refused.message])
        if found is None:
            return Verdict(seed)
        case, met = found
        write_case(case, root / "case")
        again = read_case(root / "case")
        wrong = list(differences(again.trace, replay(again)))
        with sent_twice():
            noticed = replay(again) != again.trace
        return Verdict(seed, met, case.trace["end"], wrong, noticed)


@contextmanager
def sent_twice() -> Iterator[None]:
    """A regression: a call that was lost is not looked for, and taken to have had no effect."""

    async def settle(*_: Any) -> Settlement:
        return Settlement("not_landed")

    with patch.object(sending, "settle", settle):
        yield


@click.command()
@click.option("--runs", default=200, show_default=True)
@click.option("--seed", default=0, show_default=True, help="The first one.")
@click.option("--jobs", default=1, show_default=True)
def command(runs: int, seed: int, jobs: int) -> None:
    """Export random faulty runs, and play them again."""
    ends, met = Counter[str](), Counter[str]()
    tried = wrong = noticed = 0
    for verdict in side_by_side(judged, itertools.count(seed), jobs):
        tried += 1
        wrong += bool(verdict.wrong)
        noticed += verdict.noticed
        for each in verdict.wrong:
            click.echo(f"python -m tests.reliability.exports --runs 1 --seed {verdict.seed}\n    {each}")
        if verdict.end or verdict.wrong:
            ends[verdict.end or "not exported"] += 1
            met.update(verdict.met)
        if ends.total() == runs:
            break
    click.echo(f"runs {runs} (of {tried} worlds), ends {dict(ends)}, faults {dict(met)}; wrong {wrong}")
    click.echo(f"the planted regression was noticed by {noticed}")
    sys.exit(1 if wrong or not noticed else 0)


if __name__ == "__main__":
    command()
