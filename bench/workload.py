"""One set of volumes in four spellings: manifests, records, the platform's answers, Terraform blocks.

Ten volumes an app, and one cluster for every hundred apps. `size` is the number of volumes, a
multiple of ten. The spellings agree, so that a plan over them finds nothing to do.

    python -m bench.workload SIZE ROOT    writes a project: manifests and a state that knows them all
"""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from reconciler.core.clock import SystemClock
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.state_url import DEFAULT_URL
from reconciler.state import open_store
from reconciler.state.store import Event, JournalEntry

VOLUMES_PER_APP = 10
APPS_PER_CLUSTER = 100

REGIONS = ("ams", "fra", "lhr", "iad", "sjc")
CREATED_AT = "2026-01-31T12:00:00Z"


def apps(size: int) -> range:
    return range(size // VOLUMES_PER_APP)


def clusters(size: int) -> range:
    return range(-(-size // (VOLUMES_PER_APP * APPS_PER_CLUSTER)))


def resources_in(size: int) -> int:
    """Volumes and clusters."""
    return size + len(clusters(size))


def calls_for(size: int) -> int:
    """What reading them takes: one list an app, one GET a cluster."""
    return len(apps(size)) + len(clusters(size))


def app_name(app: int) -> str:
    return f"app-{app:05}"


def volume_name(number: int) -> str:
    return f"data-{number}"


def volume_id(app: int, number: int) -> str:
    return f"vol_{app * VOLUMES_PER_APP + number:016x}"


def volume_fields(app: int, number: int) -> dict[str, Any]:
    """What the manifest manages."""
    return {
        "region": REGIONS[app % len(REGIONS)],
        "size_gb": 10 + 5 * (number % 4),
        "snapshot_retention": 7 + number,
        "auto_backup_enabled": number % 2 == 0,
        "encrypted": True,
    }


def cluster_name(cluster: int) -> str:
    return f"orders-{cluster:03}"


def cluster_id(cluster: int) -> str:
    return f"pg{cluster:014}"


def cluster_fields(cluster: int) -> dict[str, Any]:
    return {
        "plan": "starter",
        "region": REGIONS[cluster % len(REGIONS)],
        "disk_size_gb": 20,
        "pg_major_version": "17",
    }


# --- manifests ---


def write_manifests(folder: Path, size: int, *, with_clusters: bool = True) -> None:
    """One file an app with its ten documents, and one a cluster."""
    folder.mkdir(parents=True)
    for app in apps(size):
        documents = [_volume_manifest(app, number) for number in range(VOLUMES_PER_APP)]
        (folder / f"{app_name(app)}.yaml").write_text("---\n".join(documents))
    for cluster in clusters(size) if with_clusters else ():
        (folder / f"{cluster_name(cluster)}.yaml").write_text(_cluster_manifest(cluster))


def _volume_manifest(app: int, number: int) -> str:
    return (
        "apiVersion: reconciler/v1\n"
        "kind: Volume\n"
        "metadata:\n"
        f"  name: {volume_name(number)}\n"
        f"  app: {app_name(app)}\n"
        "spec:\n"
    ) + _yaml(volume_fields(app, number))


def _cluster_manifest(cluster: int) -> str:
    return (
        "apiVersion: reconciler/v1\n"
        "kind: PostgresCluster\n"
        "metadata:\n"
        f"  name: {cluster_name(cluster)}\n"
        "spec:\n"
        "  org_slug: personal\n"
    ) + _yaml(cluster_fields(cluster))


def _yaml(fields: dict[str, Any]) -> str:
    """As a person writes it: only text that looks like a number is quoted."""
    return "".join(
        f"  {name}: {value if isinstance(value, str) and value.isalpha() else json.dumps(value)}\n"
        for name, value in fields.items()
    )


# --- records ---


def write_project(root: Path, size: int) -> None:
    """Manifests, and a state in which all of them are recorded as they are."""
    write_manifests(root / "manifests", size)
    (root / "reconcile.yaml").write_text("manifests: [manifests]\n")
    anyio.run(write_records, root, size)


async def write_records(
    root: Path, size: int, url: str = DEFAULT_URL, variables: Mapping[str, str] = {}
) -> None:
    """Make the state at `url`, and record everything that `write_manifests` declares."""
    records = [*_volume_records(size), *_cluster_records(size)]
    clock = SystemClock()
    store = open_store(url, root=root, clock=clock, variables=variables)
    try:
        by_scope: dict[str, list[StateRecord]] = {}
        for record in records:
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


def _volume_records(size: int) -> Iterator[StateRecord]:
    for app in apps(size):
        for number in range(VOLUMES_PER_APP):
            yield StateRecord(
                Address("Volume", volume_name(number), app_name(app)),
                volume_id(app, number),
                app_name(app),
                {"name": volume_name(number), **volume_fields(app, number)},
                Lifecycle(),
                datetime.fromisoformat(CREATED_AT),
                f"manifests/{app_name(app)}.yaml",
            )


def _cluster_records(size: int) -> Iterator[StateRecord]:
    for cluster in clusters(size):
        yield StateRecord(
            Address("PostgresCluster", cluster_name(cluster)),
            cluster_id(cluster),
            "org/personal",
            {"name": cluster_name(cluster), "org_slug": "personal", **cluster_fields(cluster)},
            Lifecycle(),
            datetime.fromisoformat(CREATED_AT),
            f"manifests/{cluster_name(cluster)}.yaml",
        )


# --- the platform's answers ---


def answers(size: int) -> Iterator[tuple[str, bytes]]:
    """Path and JSON body of every GET that a plan needs, with all fields that the platform documents."""
    for app in apps(size):
        volumes = [_live_volume(app, number) for number in range(VOLUMES_PER_APP)]
        yield f"/v1/apps/{app_name(app)}/volumes", json.dumps(volumes).encode()
    for cluster in clusters(size):
        yield f"/v1/postgres/{cluster_id(cluster)}", json.dumps({"data": _live_cluster(cluster)}).encode()


def _live_volume(app: int, number: int) -> dict[str, Any]:
    return {
        "id": volume_id(app, number),
        "name": volume_name(number),
        "state": "created",
        **volume_fields(app, number),
        "zone": "a1b2",
        "attached_machine_id": f"{app * VOLUMES_PER_APP + number:014x}",
        "attached_alloc_id": None,
        "created_at": CREATED_AT,
        "blocks": 2555904,
        "block_size": 4096,
        "blocks_free": 2400000,
        "blocks_avail": 2280000,
        "fstype": "ext4",
        "host_dedication_key": "",
    }


def _live_cluster(cluster: int) -> dict[str, Any]:
    host = f"{cluster_id(cluster)}.internal"
    return {
        "id": cluster_id(cluster),
        "name": cluster_name(cluster),
        "organization": {"name": "Personal", "slug": "personal"},
        **cluster_fields(cluster),
        "status": "ready",
        "cpu_kind": "shared",
        "cpus": 2,
        "memory_mb": 2048,
        "replicas": 1,
        "postgis_enabled": False,
        "attached_apps": [],
        "endpoints": {
            "primary": {
                "direct": {"host": host, "port": 5432},
                "pooler": {"host": f"pooler.{host}", "port": 5432},
            }
        },
        "created_at": CREATED_AT,
        "storage_provisioned_bytes": 20_000_000_000,
        "storage_used_bytes": 1_000_000_000,
    }


# --- Terraform ---


def write_blocks(folder: Path, size: int) -> None:
    """The same volumes as `terraform_data`, one file an app."""
    folder.mkdir(parents=True)
    for app in apps(size):
        blocks = "\n".join(_block(app, number) for number in range(VOLUMES_PER_APP))
        (folder / f"{app_name(app)}.tf").write_text(blocks)


def block_name(app: int, number: int) -> str:
    return f"{app_name(app)}-{volume_name(number)}"


def block_input(app: int, number: int) -> dict[str, Any]:
    return {"name": volume_name(number), "app": app_name(app), **volume_fields(app, number)}


def _block(app: int, number: int) -> str:
    fields = block_input(app, number)
    width = max(map(len, fields))
    lines = "".join(f"    {name:{width}} = {json.dumps(value)}\n" for name, value in fields.items())
    return f'resource "terraform_data" "{block_name(app, number)}" {{\n  input = {{\n{lines}  }}\n}}\n'


if __name__ == "__main__":
    write_project(Path(sys.argv[2]), int(sys.argv[1]))
