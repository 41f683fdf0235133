"""A journal as many small applies leave it, and how it comes into a state."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from bench import workload
from reconciler.core.clock import SystemClock
from reconciler.core.model import Address
from reconciler.state import open_store
from reconciler.state.store import Event, JournalEntry

PER_RUN = 5  # entries of an apply of one change
_TOGETHER = 200  # runs in one commit


async def fill(url: str, root: Path, variables: Mapping[str, str], entries: int, apps: int) -> None:
    """Append `entries` to the state at `url`, in the scopes of `apps` apps."""
    store = open_store(url, root=root, clock=SystemClock(), variables=variables)
    try:
        lease = await store.lease([workload.app_name(app) for app in range(apps)], "bench")
        runs = _runs(entries // PER_RUN, apps)
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
        scope, run = workload.app_name(app), chance.randbytes(16).hex()
        address = Address("Volume", workload.volume_name(number % workload.VOLUMES_PER_APP), scope)
        fields = workload.volume_fields(app, number % workload.VOLUMES_PER_APP)
        volumes = {
            chance.randbytes(8).hex(): {
                "id": workload.volume_id(app, each),
                **workload.volume_fields(app, each),
            }
            for each in range(workload.VOLUMES_PER_APP)
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
