"""Many seeds in several processes: what failed, how long the slowest took, and which inputs are kept."""

import multiprocessing
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import anyio

from tests.reliability.proof import SHELF

CPU_S = 2.0  # more for one input is a failure
MOST_KEPT = 10  # failures whose inputs are written and shown: more are one bug, most of the time
CHUNK = 250  # seeds that one call of a worker examines
SILENCE_S = 300.0  # without any chunk done, something hangs where no signal reaches it


@dataclass(frozen=True, slots=True)
class Subject:
    """What is fuzzed. `prepare` makes the ground of many seeds in an empty directory: something with
    `counts` and `close`. `check` gives what is wrong with one seed, and may raise. `keep`: the input of
    the seed that was just checked, as bytes for a file.
    """

    name: str
    prepare: Callable[[Path], Awaitable[Any]]
    check: Callable[[Any, int], Awaitable[list[str]]]
    keep: Callable[[Any, int], bytes]


@dataclass(frozen=True, slots=True)
class Failure:
    """`input`: what it takes to see it again; empty when that is not known."""

    seed: int
    problems: tuple[str, ...]
    input: bytes = field(default=b"", repr=False)


@dataclass(slots=True)
class Report:
    """`slowest`: seed and CPU seconds of the input that took longest."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest: tuple[int, float] = (0, 0.0)
    elapsed_s: float = 0.0

    def add(self, other: "Report") -> None:
        self.counts += other.counts
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest, key=lambda each: each[1])


class TooSlow(BaseException):
    """Raised in the middle of an input that has used up `CPU_S`. No Exception: nobody may catch it."""


def run(subject: Subject, first: int, count: int, jobs: int) -> Report:
    """Examine `count` seeds from `first`. With one job, in this process."""
    started = time.monotonic()
    report = Report()
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            report.add(examine(subject, chunk))
    elif chunks:
        report.add(_in_processes(subject, chunks, jobs))
    report.elapsed_s = time.monotonic() - started
    return report


def _in_processes(subject: Subject, chunks: Sequence[range], jobs: int) -> Report:
    report = Report()
    # Where a worker is: read when it dies, or never comes back.
    fork = multiprocessing.get_context("fork")
    at: Any = fork.Array("q", [-1] * jobs)
    numbers = fork.Value("i", 0)
    pool = ProcessPoolExecutor(jobs, fork, initializer=_begin, initargs=(at, numbers))
    pending: set[Future[Report]] = {pool.submit(examine, subject, chunk) for chunk in chunks}
    try:
        while pending:
            done, pending = wait(pending, SILENCE_S, FIRST_COMPLETED)
            for future in done:
                report.add(future.result())
            if not done:
                problem = f"a worker came to no end within {SILENCE_S:g} s"
                report.failures += [Failure(seed, (problem,)) for seed in at if seed >= 0]
                for process in multiprocessing.active_children():
                    process.kill()
                break
    except BrokenProcessPool:
        report.failures += [Failure(seed, ("a worker died at this seed, or beside it",)) for seed in at]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return report


_slots: Any = None
_slot = 0


def _begin(at: Any, numbers: Any) -> None:
    global _slots, _slot
    with numbers.get_lock():
        _slot = numbers.value
        numbers.value += 1
    _slots = at


def examine(subject: Subject, seeds: range) -> Report:
    """All `seeds`, in this process. One that is cut off for its time takes its ground with it."""
    report = Report()
    left = list(seeds)
    while left:
        with tempfile.TemporaryDirectory(dir=SHELF) as folder:
            try:
                anyio.run(_examine, subject, Path(folder), left, report)
            except BaseException as failure:
                if not _is_too_slow(failure):
                    raise
                report.failures.append(Failure(left.pop(0), (f"more than {CPU_S:g} s of CPU",)))
    return report


def _is_too_slow(failure: BaseException) -> bool:
    """Task groups put what is raised in them into groups."""
    if isinstance(failure, BaseExceptionGroup):
        return failure.subgroup(TooSlow) is not None
    return isinstance(failure, TooSlow)


async def _examine(subject: Subject, folder: Path, left: list[int], report: Report) -> None:
    ground = await subject.prepare(folder)
    try:
        while left:
            if _slots is not None:
                _slots[_slot] = left[0]
            before = time.process_time()
            with _limited_time():
                try:
                    problems = await subject.check(ground, left[0])
                except Exception as failure:
                    problems = ["".join(traceback.format_exception(failure)).strip()]
            spent_s = time.process_time() - before
            report.slowest = max(report.slowest, (left[0], spent_s), key=lambda each: each[1])
            if spent_s > CPU_S:
                problems = [*problems, f"{spent_s:.1f} s of CPU"]
            if problems:
                report.failures.append(Failure(left[0], tuple(problems), subject.keep(ground, left[0])))
            report.counts["inputs"] += 1
            left.pop(0)
    finally:
        report.counts += ground.counts
        await ground.close()


@contextmanager
def _limited_time() -> Iterator[None]:
    def strike(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, strike)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def keep(name: str, report: Report, found: Path) -> list[Path]:
    """Write the inputs of failures into `found`, where a test reads them from then on."""
    written = []
    for failure in report.failures[:MOST_KEPT]:
        if failure.input:
            written.append(found / f"{name}-{failure.seed}.json")
            written[-1].write_bytes(failure.input)
    return written
