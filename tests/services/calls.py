"""One call per documented endpoint (platform API, 4.1 to 4.3): recorded by `record`, replayed by tests."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.core.clock import SystemClock
from reconciler.core.steps import Call, Read
from reconciler.core.wire import many, one
from reconciler.services.client import Client
from reconciler.services.machines.service import platform_client
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.volume import Snapshot, Volume
from reconciler.services.transport import Transport

CASSETTES = Path(__file__).parents[2] / "cassettes"

TOKEN = "token-that-no-cassette-may-hold"
VALUE = "value-that-no-cassette-may-hold"

# What exists when each call is recorded; see `reconciler.sandbox.seed`.
WORLD = {
    "apps": [{"name": "shop", "org_slug": "acme", "primary_region": "ams"}],
    "clusters": [
        {
            "id": "cluster1recorded",
            "name": "orders",
            "organization": {"slug": "acme"},
            "created_at": "2025-12-01T00:00:00Z",
        }
    ],
    "volumes": [
        {"id": "vol_recorded", "app": "shop", "name": "data", "size_gb": 10},
        {"id": "vol_attached", "app": "shop", "name": "data", "size_gb": 3, "attached_machine_id": "m1"},
    ],
    "snapshots": [{"id": "vs_recorded", "volume_id": "vol_recorded", "size": 4096}],
    "machines": [{"id": "m1", "app": "shop", "state": "started", "volumes": ["vol_attached"]}],
}

_VOLUMES = "/v1/apps/shop/volumes"
_CLUSTER = {"org_slug": "acme", "plan": "starter", "region": "ams", "name": "billing", "disk_size_gb": 20}
_VOLUME = {"name": "logs", "region": "ams", "size_gb": 5, "snapshot_retention": 14}

CALLS: Mapping[str, Callable[[Client], Awaitable[Any]]] = {
    "cluster_create": lambda api: api.send(Call("POST", "/v1/postgres", _CLUSTER), id_path="data.id"),
    "cluster_get": lambda api: api.read(Read("/v1/postgres/cluster1recorded", one(Cluster))),
    "cluster_restore": lambda api: api.send(
        Call(
            "POST",
            "/v1/postgres/cluster1recorded/restore",
            {"pitr_time": "2026-01-01T00:00:00Z", "name": "orders-restored"},
        ),
        id_path="data.id",
    ),
    "volume_list": lambda api: api.read(Read(_VOLUMES, many(Volume))),
    "volume_list_without_app": lambda api: api.read(Read("/v1/apps/nowhere/volumes", many(Volume))),
    "volume_create": lambda api: api.send(Call("POST", _VOLUMES, _VOLUME), id_path="id"),
    "volume_get": lambda api: api.read(Read(f"{_VOLUMES}/vol_recorded", one(Volume))),
    "volume_update": lambda api: api.send(
        Call("PUT", f"{_VOLUMES}/vol_recorded", {"snapshot_retention": 30}), id_path="id"
    ),
    "volume_extend": lambda api: api.send(
        Call("PUT", f"{_VOLUMES}/vol_attached/extend", {"size_gb": 6}), id_path="volume.id"
    ),
    "volume_delete": lambda api: api.send(Call("DELETE", f"{_VOLUMES}/vol_recorded", None), id_path="id"),
    "volume_delete_refused": lambda api: api.send(
        Call("DELETE", f"{_VOLUMES}/vol_attached", None), id_path="id", accepts=("not_found", "gone")
    ),
    "snapshot_list": lambda api: api.read(Read(f"{_VOLUMES}/vol_recorded/snapshots", many(Snapshot))),
    "snapshot_create": lambda api: api.send(
        Call("POST", f"{_VOLUMES}/vol_recorded/snapshots", None), id_path="Msg.backup.graph_id"
    ),
    "secret_set": lambda api: api.send(
        Call("POST", "/v1/apps/shop/secrets/PG_PASSWORD", {"value": VALUE}, sensitive=True), id_path=None
    ),
}


def client(transport: Transport, base_url: str) -> Client:
    return platform_client(transport, base_url, lambda: TOKEN, SystemClock())
