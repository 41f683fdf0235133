"""Kills of `reconcile state migrate` at each step, between every two kinds of store.

`python -m tests.reliability.migrations` kills a move before and after each request to either store, and each
step of a file. After each kill exactly one side must take changes, and the same move, run again, must end:
then the new side holds what the old one held, to the ends of its chains. `--sample N`: so many points only.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
import click

from reconciler.core.errors import ReconcilerError
from reconciler.state.log.store import LogStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import WHOLE_STATE
from tests.cli.harness import Ran, environment
from tests.forking import apart, import_everything
from tests.reliability.kills.boundaries import Boundaries, trace_of, wrap_bucket
from tests.reliability.kills.processes import run_forked
from tests.reliability.shared import NEW_MOTO, NEW_SERVER, File, Place, Server, server
from tests.state.moving import filled

FILE = "sqlite:"
PAIRS = (
    (FILE, FILE),
    (FILE, NEW_SERVER),
    (FILE, NEW_MOTO),
    (NEW_SERVER, NEW_MOTO),
    (NEW_MOTO, NEW_SERVER),
    (NEW_SERVER, FILE),
)


@dataclass
class Move:
    """One case: its folder, and the two sides. `defect`: nothing marks the old one, if it is a file."""

    root: Path
    old: Place
    new: Place
    defect: bool = False
    _processes: int = 0

    def fill(self) -> None:
        self.root.mkdir()
        (self.root / "reconcile.yaml").write_text("{}\n", encoding="utf-8")
        apart(lambda: anyio.run(_filled, self.old))

    def migrate(self, trace: Path, strike: str = "") -> Ran:
        ran = self._run(lambda: _migrate(self.old.url, self.new.url, trace, strike, self.defect))
        self.old.lease_over()
        return ran

    def known(self, place: Place) -> Any:
        """What a run with this state finds, without changing anything."""
        return self._run(lambda: _print(anyio.run(_known, place.url))).json

    def writable(self, *places: Place) -> list[bool]:
        """One after the other, whether a run with this state gets a lease and commits."""
        urls = [place.url for place in places]
        found: list[bool] = self._run(lambda: _print([anyio.run(_is_writable, url) for url in urls])).json
        return found

    def drop(self) -> None:
        for place in (self.old, self.new):
            place.drop()
        shutil.rmtree(self.root)

    def _run(self, work: Callable[[], None]) -> Ran:
        self._processes += 1
        env = environment(None, XDG_STATE_HOME=str(self.root / "home"))
        env |= {**self.old.variables, **self.new.variables}
        ran = run_forked(work, root=self.root, env=env, name=str(self._processes))
        assert ran is not None, "it did not end by itself"
        return ran


@dataclass
class Campaign:
    """The kills of the moves from one kind of store to another."""

    folder: Path
    source: Server | None
    target: Server | None
    defect: bool = False
    violations: list[str] = field(default_factory=list)
    missed: int = 0
    sides: dict[str, int] = field(default_factory=lambda: {"old": 0, "new": 0})
    _cases: int = 0

    def points(self) -> list[str]:
        """What an undisturbed move reaches, in order."""
        with self._moving() as move:
            trace = move.root / "trace"
            assert (ran := move.migrate(trace)).code == 0, ran.err
            return trace_of(trace)

    def kill(self, point: str) -> None:
        with self._moving() as move:
            assert move.writable(move.old) == [True]
            before = move.known(move.old)
            killed = move.migrate(move.root / "trace", point)
            if killed.code != -signal.SIGKILL:
                assert killed.code == 0, killed.err
                self.missed += 1  # a busy machine renews a lease more often, or less
                return
            first = move.writable(move.old, move.new)
            if sum(first) != 1:
                self._say(point, f"old and new side take changes: {first}")
                return
            self.sides["old" if first[0] else "new"] += 1
            if (second := move.writable(move.new, move.old)[::-1]) != first:
                self._say(point, f"the sides took changes as {first}, and then as {second}")
            again = move.migrate(move.root / "again")
            if again.code != 0:
                self._say(point, f"the second move ends with {again.code}: {again.err}")
                return
            if (last := move.writable(move.old, move.new)) != [False, True]:
                self._say(point, f"after the second move the sides take changes: {last}")
            if (after := move.known(move.new)) != before:
                differing = {name for name in before if before[name] != after[name]}
                self._say(point, f"the new side has other {', '.join(sorted(differing))}")

    def _say(self, point: str, what: str) -> None:
        self.violations.append(f"{point}: {what}")

    @contextmanager
    def _moving(self) -> Iterator[Move]:
        self._cases += 1
        root = self.folder / f"move-{self._cases}"
        old, new = (
            File(root / name) if server is None else server.new()
            for name, server in (("old.db", self.source), ("new.db", self.target))
        )
        move = Move(root, old, new, self.defect)
        move.fill()
        try:
            yield move
        finally:
            move.drop()


# --- in processes of their own ---


async def _filled(place: Place) -> None:
    store = place.open()
    await filled(store)
    await store.close()


async def _known(url: str) -> Any:
    from reconciler.project.settings import find_settings
    from reconciler.project.store import Opening, open_state

    async with open_state(find_settings(Path.cwd(), os.environ), Opening(url, read_only=True)) as store:
        state = await store.load()
        return {
            "lineage": state.lineage,
            "heads": dict(sorted(state.heads.items())),
            "serials": dict(sorted(state.serials.items())),
            "records": sorted(map(repr, state.records.values())),
            "open": [repr(each) for each in state.open_intents],
            "key": (await store.fingerprint_key()).hex(),
        }


async def _is_writable(url: str) -> bool:
    from reconciler.project.open import begin_work
    from reconciler.project.settings import find_settings
    from reconciler.project.store import Opening, open_state

    try:
        config = find_settings(Path.cwd(), os.environ)
        async with open_state(config, Opening(url)) as store:
            await begin_work(config, store, Opening(url))
            lease = await store.lease([WHOLE_STATE, *(await store.load()).heads], "the proof")
            await store.commit(lease.of(WHOLE_STATE), [])
            await store.release(lease)
    except ReconcilerError:
        return False
    return True


def _print(found: Any) -> None:
    sys.stdout.write(json.dumps(found))


def _migrate(old: str, new: str, trace: Path, strike: str, defect: bool) -> None:
    """Ends as the verb does. That the new store keeps its word is not tried: it takes hundreds of writes."""
    from reconciler.cli.main import run
    from reconciler.state.places.postgres.store import PostgresStore

    async def unproved(store: LogStore) -> bool:
        return False

    async def unmarked(*arguments: Any) -> None:
        return

    LogStore.probe = PostgresStore.probe = unproved  # type: ignore[method-assign, assignment]
    if defect:
        SqliteStore.retire = unmarked  # type: ignore[method-assign, assignment]
    boundaries = Boundaries(trace, strike, signal.SIGKILL)
    wrap_bucket(boundaries)
    _wrap_files(boundaries)
    sys.exit(run(["state", "migrate", new, "--state", old]))


def _wrap_files(boundaries: Boundaries) -> None:
    from reconciler.state.places.sqlite import whole
    from reconciler.state.places.sqlite.state_file import StateFile

    for name in ("export", "lease", "import_", "retire", "revive", "release"):
        _wrap(boundaries, SqliteStore, name)
    _wrap(boundaries, whole, "make")
    for name in ("create", "replace", "delete"):
        _wrap(boundaries, StateFile, name)


def _wrap(boundaries: Boundaries, owner: Any, name: str) -> None:
    real: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        boundaries.reach(f"{name}:before")
        done = real(*arguments, **more)
        boundaries.reach(f"{name}:after")
        return done

    async def await_call(*arguments: Any, **more: Any) -> Any:
        boundaries.reach(f"{name}:before")
        done = await real(*arguments, **more)
        boundaries.reach(f"{name}:after")
        return done

    setattr(owner, name, await_call if iscoroutinefunction(real) else call)


# --- the command ---


def chosen(points: Sequence[str], sample: int | None) -> Sequence[str]:
    """All of them, or so many at equal distances, with the last one."""
    if sample is None or sample >= len(points):
        return points
    return [points[(number + 1) * len(points) // sample - 1] for number in range(sample)]


def play(
    pairs: Sequence[tuple[str, str]], sample: int | None, tell: Callable[[str], None], *, defect: bool = False
) -> int:
    """How many things were wrong. `tell` hears of each, and of each pair."""
    wrong = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="migrations-")))
        wanted = {each for pair in pairs for each in pair}
        servers = {each: server("" if each == FILE else each, stack) for each in sorted(wanted)}
        for source, target in pairs:
            campaign = Campaign(folder, servers[source], servers[target], defect)
            points = campaign.points()
            played = chosen(points, sample)
            for point in played:
                campaign.kill(point)
            for violation in campaign.violations:
                tell(f"{source} to {target}, {violation}")
            wrong += len(campaign.violations)
            old, new = campaign.sides.values()
            kills = len(played) - campaign.missed
            wrong += not kills
            tell(
                f"{source:12} to {target:12} {len(points):4} points, {kills:4} kills: "
                f"{old:4} leave the old side, {new:4} the new one; {len(campaign.violations)} violations"
            )
    return wrong


@click.command()
@click.option("--sample", type=click.IntRange(1), help="So many points of each pair only.")
@click.option("--from", "source", type=click.Choice([FILE, NEW_SERVER, NEW_MOTO]), help="Only from there.")
@click.option("--to", "target", type=click.Choice([FILE, NEW_SERVER, NEW_MOTO]), help="Only to there.")
@click.option("--defect", is_flag=True, help="Plant one: nothing marks the old side, if it is a file.")
def command(sample: int | None, source: str | None, target: str | None, defect: bool) -> None:
    """Kill moves of a state at their steps, and end them. Exits with 1 when anything is wrong."""
    import_everything()
    started = time.monotonic()
    pairs = [pair for pair in PAIRS if source in (None, pair[0]) and target in (None, pair[1])]
    if not pairs:
        raise click.UsageError("there is no such pair")
    wrong = play(pairs, sample, click.echo, defect=defect)
    click.echo(f"{time.monotonic() - started:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    command()
