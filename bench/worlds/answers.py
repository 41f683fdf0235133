"""What the platform answers about a world: with all fields that it documents."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.worlds.world import (
    CREATED_AT,
    World,
    app_name,
    cluster_fields,
    cluster_id,
    cluster_name,
    machine_id,
    volume_fields,
    volume_id,
    volume_name,
)


def answers(world: World) -> Iterator[tuple[str, bytes]]:
    """Path and JSON body of every GET that a plan needs."""
    for app in range(world.apps):
        path = f"/v1/apps/{app_name(app)}/volumes"
        yield path, json.dumps([_volume(app, number) for number in range(world.live_in_app)]).encode()
        for number in range(world.live_in_app if world.max_age_h else 0):
            yield f"{path}/{volume_id(app, number)}/snapshots", json.dumps([_snapshot(app, number)]).encode()
    for cluster in range(world.clusters):
        yield f"/v1/postgres/{cluster_id(cluster)}", json.dumps({"data": _cluster(cluster)}).encode()


def _volume(app: int, number: int) -> dict[str, Any]:
    return {
        "id": volume_id(app, number),
        "name": volume_name(number),
        "state": "created",
        **volume_fields(app, number),
        "zone": "a1b2",
        "attached_machine_id": machine_id(app, number),
        "attached_alloc_id": None,
        "created_at": CREATED_AT,
        "blocks": 2555904,
        "block_size": 4096,
        "blocks_free": 2400000,
        "blocks_avail": 2280000,
        "fstype": "ext4",
        "host_dedication_key": "",
    }


def _snapshot(app: int, number: int) -> dict[str, Any]:
    """An hour old."""
    return {
        "id": volume_id(app, number).replace("vol", "vs"),
        "size": 1_000_000,
        "digest": "d" * 64,
        "created_at": (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "retention_days": 7,
        "status": "created",
        "volume_size": 10_000_000_000,
    }


def _cluster(cluster: int) -> dict[str, Any]:
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
