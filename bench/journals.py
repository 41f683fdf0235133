"""Commands over a state whose journal is long, as many small applies leave it."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import anyio

from bench.places import FILE, Place
from bench.processes import Cost, run
from bench.stage import Program, Project, Stage
from bench.worlds.manifests import change_retention, write_manifests
from bench.worlds.world import app_name, new, volume_fields, volume_id, volume_name
from reconciler.core.clock import SystemClock
from reconciler.core.model import Address
from reconciler.state import open_store
from reconciler.state.store import Event, JournalEntry

_WORLD = new(100)
_PER_RUN = 5  # entries of an apply of one change
_TOGETHER = 200  # runs in one commit


@dataclass(frozen=True)
class Journal(Program):
    """`command`: "plan", which finds nothing to do, or "apply", of one change."""

    command: str
    entries: int
    place: Place = FILE

    def opened(self, stage: Stage) -> Callable[[], Cost]:
        what = (self.entries, self.place)
        project, days = stage.once(what, lambda: (_filled(stage, self.entries, self.place), count(21)))
        if self.command == "plan":
            return lambda: project.run("plan", expect="No changes")

        def apply() -> Cost:
            change_retention(project.root, 20 + next(days) % 30)
            return project.run("apply", "--auto-approve", expect="Applied: 1 done.")

        return apply

    def __str__(self) -> str:
        what = "plan" if self.command == "plan" else "apply of one change"
        return f"{self.place.name}: {what}, {self.entries:,} journal entries"


def _filled(stage: Stage, entries: int, place: Place) -> Project:
    """A project with a hundred volumes that exist, and a journal with as many entries and a few more."""
    root = stage.folder()
    write_manifests(root, _WORLD)
    place.prepare(root.name)
    project = place.project(stage, root, stage.enter(stage.sandbox(root, _WORLD.apps)))
    project.run("state", "init")
    project.run("apply", "--auto-approve", expect=f"Applied: {_WORLD.size} done.")
    # In a process of its own: `stage` may be about another revision, with another layout of its state.
    fill = [sys.executable, "-m", "bench.journals", project.variables["RECONCILE_STATE"], str(entries)]
    run(fill, root, project.variables)
    change_retention(root, 20)
    project.run("apply", "--auto-approve", expect="Applied: 1 done.")
    return project


async def _fill(root: Path, url: str, entries: int) -> None:
    store = open_store(url, root=root, clock=SystemClock(), variables=os.environ)
    try:
        lease = await store.lease([app_name(app) for app in range(_WORLD.apps)], "bench")
        runs = _runs(entries // _PER_RUN, _WORLD.apps)
        while some := [run for run, _ in zip(runs, range(_TOGETHER), strict=False)]:
            by_scope: dict[str, list[JournalEntry]] = {}
            for scope, found in some:
                by_scope.setdefault(scope, []).extend(found)
            async with anyio.create_task_group() as commits:
                for scope, found in by_scope.items():
                    commits.start_soon(store.commit, lease.of(scope), found)
        await store.release(lease)
    finally:
        await store.close()


def _runs(count: int, apps: int) -> Iterator[tuple[str, list[JournalEntry]]]:
    """Scope and entries of each: an update of one volume, with what it saw of its app."""
    chance, at = random.Random(1), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(count):
        app, at = number % apps, at + timedelta(minutes=5)
        scope, run = app_name(app), chance.randbytes(16).hex()
        address = Address("Volume", volume_name(number % _WORLD.volumes), scope)
        fields = volume_fields(app, number % _WORLD.volumes)
        volumes = {
            chance.randbytes(8).hex(): {
                "id": volume_id(app, each),
                **volume_fields(app, each),
            }
            for each in range(_WORLD.volumes)
        }
        path = f"/v1/apps/{scope}/volumes"
        read = {"path": path, "shape": "volumes", "at": at.isoformat(), "objects": list(volumes)}
        began = {"plan": chance.randbytes(16).hex(), "actor": "anna@runner", "changes": {"update": 1}}
        intent = {"scope": scope, "method": "PUT", "path": path, "body": fields, "if_unknown": "repeat"}
        entries = [
            JournalEntry(run, Event.RUN_STARTED, at, data=began),
            JournalEntry(run, Event.RUN_OBSERVED, at, data={"reads": [read], "objects": volumes}),
            JournalEntry(run, Event.INTENT, at, address, "update", data=intent),
            JournalEntry(run, Event.DONE, at, address, "update"),
            JournalEntry(run, Event.RUN_FINISHED, at, data={"outcomes": {"done": 1}}),
        ]
        yield scope, entries


if __name__ == "__main__":
    anyio.run(_fill, Path(), sys.argv[1], int(sys.argv[2]))
