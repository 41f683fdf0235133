"""Many histories on several processes, and what they reached together."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.reliability.simulation.database import serving
from tests.reliability.simulation.draw import draw
from tests.reliability.simulation.ghost import Violation
from tests.reliability.simulation.history import play
from tests.reliability.simulation.scenario import State
from tests.reliability.simulation.tally import REQUIRED, Tally

CHUNK = 20


@dataclass(frozen=True, slots=True)
class Played:
    """One seed's outcome, small enough to be sent between processes. `cpu_s`: what it cost."""

    seed: int
    violation: Violation | None
    hash: str
    events: int
    tally: Tally
    simulated_s: float
    cpu_s: float


ENOUGH = 30  # as many as each commit plays: after those, every kind of event must have happened


@dataclass
class Summary:
    """All that was reached. `missed`: the kinds of event that never happened."""

    state: State = "sqlite"
    histories: int = 0
    events: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    violations: list[tuple[int, Violation]] = field(default_factory=list)

    @property
    def missed(self) -> list[str]:
        """Few histories need not reach everything: the seed of a violation is played again alone."""
        return sorted(REQUIRED[self.state] - set(self.tally)) if self.histories >= ENOUGH else []

    def add(self, played: Played) -> None:
        self.histories += 1
        self.events += played.events
        self.simulated_s += played.simulated_s
        self.cpu_s += played.cpu_s
        self.tally.update(played.tally)
        if played.violation is not None:
            self.violations.append((played.seed, played.violation))


def play_seed(seed: int, state: State = "sqlite") -> Played:
    began_s = time.process_time()
    report = play(draw(seed, state))
    return Played(
        seed,
        report.violation,
        report.hash,
        report.events,
        report.tally,
        report.simulated_s,
        time.process_time() - began_s,
    )


def run(
    seeds: Sequence[int],
    jobs: int,
    state: State = "sqlite",
    follow: Callable[[Summary, Played], None] = lambda *so_far: None,
) -> Summary:
    """Play all `seeds` on `jobs` processes. `follow` hears of each history, and of what there is so far."""
    summary = Summary(state)
    began_s = time.monotonic()
    with serving(state):
        for played in _played(seeds, jobs, state):
            summary.add(played)
            summary.seconds = time.monotonic() - began_s
            follow(summary, played)
    return summary


def differing_hashes(seeds: Sequence[int], jobs: int, state: State = "sqlite") -> list[int]:
    """The seeds whose two histories differ, played by processes that hash their strings differently."""
    with serving(state), _processes(jobs, "1") as first, _processes(jobs, "2") as second:
        pairs = zip(_map(first, seeds, state), _map(second, seeds, state), strict=True)
        return [one.seed for one, other in pairs if one.hash != other.hash]


def _played(seeds: Sequence[int], jobs: int, state: State) -> Iterator[Played]:
    if jobs == 1:
        yield from (play_seed(seed, state) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from _map(pool, seeds, state)


def _map(pool: ProcessPoolExecutor, seeds: Sequence[int], state: State) -> Iterable[Played]:
    return pool.map(partial(play_seed, state=state), seeds, chunksize=CHUNK)


@contextmanager
def _processes(jobs: int, hash_seed: str) -> Iterator[ProcessPoolExecutor]:
    """Processes that start anew, with their own order of sets of strings."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    try:
        pool = ProcessPoolExecutor(max(1, jobs // 2), mp_context=multiprocessing.get_context("spawn"))
        list(pool.map(partial(_start, hash_seed), range(max(1, jobs // 2))))
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
    with pool:
        yield pool


def _start(hash_seed: str, number: int) -> None:
    """Make the pool start its processes while the environment says so."""
    assert os.environ["PYTHONHASHSEED"] == hash_seed
