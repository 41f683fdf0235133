"""Calls of each documented endpoint and error: recorded by `record`, replayed by tests.

Source: platform API, 4.1 to 4.4 and 7.1; of restores' errors, platform notes, "Postgres".
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from reconciler.core.clock import SystemClock
from reconciler.core.steps import Call, Read
from reconciler.core.wire import many, one
from reconciler.services.client import Client
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.machine import MachineWaited
from reconciler.services.machines.wire.volume import Snapshot, Volume
from reconciler.services.platform import platform_client
from reconciler.services.transport import Transport

CASSETTES = Path(__file__).parents[2] / "cassettes"

TOKEN = "token-that-no-cassette-may-hold"
VALUE = "value-that-no-cassette-may-hold"

# What exists when each call is recorded; see `reconciler.sandbox.catalog.plant`.
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
    "machines": [
        {"id": "m1", "app": "shop", "state": "started", "volumes": ["vol_attached"]},
        {"id": "m2", "app": "shop", "state": "suspended"},
        {"id": "m3", "app": "shop", "state": "started", "memory_mb": 4096},
    ],
}


def _fails(path: str, text: str) -> Mapping[str, Any]:
    fault = {"action": "status", "method": "POST", "path": path, "status": 400, "body": {"error": text}}
    return {"script": fault}


# Of calls that meet another sandbox: what is different there.
UNLIKE: Mapping[str, Mapping[str, Any]] = {
    "cluster_create_failed": _fails("/v1/postgres", "Failed to create cluster"),
    "cluster_restore_failed": _fails("/v1/postgres/*/restore", "Failed to restore cluster"),
    "machine_wait_too_short": {"clock": "x600"},  # the wait ends because its time passes
    "cluster_create_unauthorized": {"token": "another"},
    "cluster_restore_unauthorized": {"token": "another"},
    "cluster_get_unauthorized": {"token": "another"},
}

_VOLUMES = "/v1/apps/shop/volumes"
_MACHINES = "/v1/apps/shop/machines"
_CLUSTER = {"org_slug": "acme", "plan": "starter", "region": "ams", "name": "billing", "disk_size_gb": 20}
_VOLUME = {"name": "logs", "region": "ams", "size_gb": 5, "snapshot_retention": 14}

_PITR = {"pitr_time": "2026-01-01T00:00:00Z", "name": "orders-restored"}
_RECORDED = "cluster1recorded"

Recorded = Callable[[Client], Awaitable[Any]]


def _create(**fields: Any) -> Recorded:
    """A cluster; a field that is None is left out."""
    body = {name: value for name, value in {**_CLUSTER, **fields}.items() if value is not None}
    return lambda api: api.send(Call("POST", "/v1/postgres", body), id_path="data.id")


def _restore(body: Mapping[str, Any], source: str = _RECORDED) -> Recorded:
    return lambda api: api.send(Call("POST", f"/v1/postgres/{source}/restore", body), id_path="data.id")


def _get(id: str) -> Recorded:
    return lambda api: api.read(Read(f"/v1/postgres/{id}", one(Cluster)))


def _power(machine: str, verb: str) -> Recorded:
    return lambda api: api.send(Call("POST", f"{_MACHINES}/{machine}/{verb}", None), id_path=None)


def _wait(machine: str) -> Recorded:
    path = f"{_MACHINES}/{machine}/wait?state=suspended&timeout=1"
    return lambda api: api.read(Read(path, one(MachineWaited)))


CALLS: Mapping[str, Recorded] = {
    "cluster_create": _create(),
    "cluster_create_without_organization": _create(org_slug=None),
    "cluster_create_with_a_number": _create(org_slug=7),
    "cluster_create_failed": _create(),
    "cluster_create_unauthorized": _create(),
    "cluster_create_in_unknown_organization": _create(org_slug="nobody"),
    "cluster_create_invalid": _create(plan="huge"),
    "cluster_get": _get(_RECORDED),
    "cluster_get_unauthorized": _get(_RECORDED),
    "cluster_get_missing": _get("none"),
    "cluster_restore": _restore(_PITR),
    "cluster_restore_failed": _restore(_PITR),
    "cluster_restore_unauthorized": _restore(_PITR),
    "cluster_restore_missing": _restore(_PITR, "none"),
    "cluster_restore_without_backup": _restore({"backup_id": "none"}),
    "cluster_restore_invalid": _restore({**_PITR, "backup_id": "none"}),
    "cluster_restore_outside_window": _restore({"pitr_time": "2020-01-01T00:00:00Z"}),
    "machine_suspend": _power("m1", "suspend"),
    "machine_suspend_refused": _power("m3", "suspend"),
    "machine_wait": _wait("m2"),
    "machine_wait_too_short": _wait("m1"),
    "machine_start": _power("m2", "start"),
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
