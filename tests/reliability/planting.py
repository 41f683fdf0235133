"""Bugs planted in the source while a fresh process imports it, and the hunt for them.

A text that does not stand there exactly once is an error.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Literal

ROOT = Path(__file__).parent.parent.parent
TESTS_PASSED, TEST_FAILED = 0, 1  # what pytest exits with; all else says that nothing was tested
_PLANTED = "PLANTED"  # the environment variable with the changes, for the processes that a test starts


@dataclass(frozen=True, slots=True)
class Change:
    """In `file` (below reconciler/), `old` becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug. `state`: where the histories keep theirs that are to catch it.

    `test`: the fast test that catches it instead, where histories hardly reach what it needs.
    """

    name: str
    changes: tuple[Change, ...]
    state: Literal["sqlite", "objects", "postgresql"] = "sqlite"
    test: str = ""


def tested(name: str, test: str, file: str, old: str, new: str) -> Mutant:
    """One that a fast test catches."""
    return Mutant(name, (Change(file, old, new),), test=test)


@dataclass(frozen=True, slots=True)
class Caught:
    """How a hunt ended. `by`: a seed and its invariant, or a test; "" when the mutant survived."""

    name: str
    by: str
    seconds: float


class _Planting(importlib.machinery.SourceFileLoader):
    """Loads a module from its changed source, and never from compiled code."""

    changes: tuple[Change, ...] = ()

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(planted(self.get_data(path).decode(), self.changes).encode(), path)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._changes: Mapping[str, tuple[Change, ...]] = {
            module_of(change.file): tuple(each for each in mutant.changes if each.file == change.file)
            for change in mutant.changes
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Planting(fullname, spec.origin)
        loader.changes = self._changes[fullname]
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


def module_of(file: str) -> str:
    return "reconciler." + file.removesuffix(".py").replace("/", ".")


def planted(source: str, changes: Sequence[Change]) -> str:
    """`source` with the bugs in it. Raises ValueError when an old text does not stand there exactly once."""
    for change in changes:
        found = source.count(change.old)
        if found != 1:
            raise ValueError(f"{change.file} holds this text {found} times, not once: {change.old!r}")
        source = source.replace(change.old, change.new)
    return source


def hunt(mutant: Mutant, seeds: Sequence[int]) -> Caught:
    """Plant `mutant` in a process that has imported nothing of reconciler, and play `seeds` or its test."""
    assert not any(name.split(".")[0] == "reconciler" for name in sys.modules)
    sys.meta_path.insert(0, _Finder(mutant))
    began_s = time.monotonic()
    by = _tested(mutant) if mutant.test else _played(mutant, seeds)
    return Caught(mutant.name, by, time.monotonic() - began_s)


def _played(mutant: Mutant, seeds: Sequence[int]) -> str:
    from tests.reliability.simulation.campaign import play_seed

    for seed in seeds:
        violation = play_seed(seed, mutant.state).violation
        if violation is not None:
            return f"seed {seed}  {violation.invariant}"
    return ""


def plant_again() -> None:
    """Plant in a process that a test has started: see `_in_children`."""
    changes = tuple(Change(*each) for each in json.loads(os.environ[_PLANTED]))
    sys.meta_path.insert(0, _Finder(Mutant("", changes)))


@contextlib.contextmanager
def _in_children(mutant: Mutant) -> Iterator[None]:
    """Each Python that is started meanwhile imports `sitecustomize`, which plants the bugs there, too."""
    changes = [(each.file, each.old, each.new) for each in mutant.changes]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(f"from {__name__} import plant_again\n\nplant_again()\n")
        os.environ |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", _PLANTED: json.dumps(changes)}
        try:
            yield
        finally:
            del os.environ["PYTHONPATH"], os.environ[_PLANTED]


def _tested(mutant: Mutant) -> str:
    import pytest

    test = mutant.test

    # Without its own loader for asserts, which would come before ours.
    arguments = ["-x", "-q", "-n0", "--assert=plain", "-p", "no:cacheprovider", str(ROOT / test)]
    with contextlib.redirect_stdout(io.StringIO()), _in_children(mutant):
        ended = pytest.main(arguments)
    if ended not in (TESTS_PASSED, TEST_FAILED):
        raise RuntimeError(f"pytest could not run {test}: {ended!r}")
    return test if ended == TEST_FAILED else ""


def hunt_all(mutants: Sequence[Mutant], seeds: Sequence[int], jobs: int) -> Iterator[Caught]:
    """One fresh process for each mutant, `jobs` at a time."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, max_tasks_per_child=1) as pool:
        yield from pool.map(hunt, mutants, [seeds] * len(mutants))
