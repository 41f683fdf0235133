"""A world's state: everything in it that is recorded, as it was declared.

python -m bench.worlds.records WORLD ROOT    writes a project: manifests, and a file with this state
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import anyio

from bench.worlds.manifests import file_of, write_manifests
from bench.worlds.world import (
    CREATED_AT,
    World,
    app_name,
    cluster_fields,
    cluster_id,
    cluster_name,
    volume_fields,
    volume_id,
    volume_name,
)
from reconciler.core.clock import SystemClock
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.state_url import DEFAULT_URL
from reconciler.state import open_store
from reconciler.state.store import Event, JournalEntry


async def write_records(
    root: Path, world: World, url: str = DEFAULT_URL, variables: Mapping[str, str] = {}
) -> None:
    """Make the state at `url`."""
    clock = SystemClock()
    store = open_store(url, root=root, clock=clock, variables=variables)
    try:
        by_scope: dict[str, list[StateRecord]] = {}
        for record in (*_volumes(world), *_clusters(world)):
            by_scope.setdefault(record.scope, []).append(record)
        await store.create()
        lease = await store.lease(sorted(by_scope), "bench")
        entry = JournalEntry("prepared", Event.RUN_STARTED, clock.now())
        async with anyio.create_task_group() as commits:  # side by side: they share a transaction
            for scope, held in by_scope.items():
                commits.start_soon(store.commit, lease.of(scope), [entry], held)
        await store.release(lease)
    finally:
        await store.close()


_SEEN = {"fstype": "ext4", "created_at": CREATED_AT}  # what no manifest says, as an apply records it


def _volumes(world: World) -> Iterator[StateRecord]:
    for app in range(world.apps):
        for number in range(world.recorded_in_app):
            yield StateRecord(
                Address("Volume", volume_name(number), app_name(app)),
                volume_id(app, number),
                app_name(app),
                {"name": volume_name(number), **volume_fields(app, number), **_SEEN},
                Lifecycle(),
                datetime.fromisoformat(CREATED_AT),
                f"manifests/{file_of(world, app, number)}",
            )


def _clusters(world: World) -> Iterator[StateRecord]:
    for cluster in range(world.clusters):
        yield StateRecord(
            Address("PostgresCluster", cluster_name(cluster)),
            cluster_id(cluster),
            "org/personal",
            {"name": cluster_name(cluster), "org_slug": "personal", **cluster_fields(cluster)},
            Lifecycle(),
            datetime.fromisoformat(CREATED_AT),
            f"manifests/{cluster_name(cluster)}.yaml",
        )


def main() -> None:
    world, root = World.loads(sys.argv[1]), Path(sys.argv[2])
    write_manifests(root, world)
    anyio.run(write_records, root, world)


if __name__ == "__main__":
    main()
