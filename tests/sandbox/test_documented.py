"""One example for every endpoint, with the facts of the API document (or, extended, of the notes).

And the cassettes, replayed against the sandbox: the same status, and JSON of the same shape.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from reconciler.core.wire import parse_time
from reconciler.sandbox.catalog import ROUTES
from tests.sandbox.platform import Platform
from tests.services.calls import CASSETTES, UNLIKE, WORLD

RECORDED = datetime(2026, 1, 2, tzinfo=UTC).timestamp()


class Is(NamedTuple):
    """Stands for any text that matches."""

    pattern: str


ID = Is(r".+")
TIME = Is(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
NANOSECONDS = Is(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
WHOLE = Is(r"\d+")
CLUSTER = {
    "id": ID,
    "name": "orders",
    "organization": {"name": "Personal", "slug": "personal"},
    "region": "ams",
    "plan": "Performance",
    "pg_major_version": "17",
    "status": "creating",
    "cpu_kind": "performance",
    "cpus": WHOLE,
    "memory_mb": WHOLE,
    "disk_size_gb": 1000,
    "replicas": WHOLE,
    "postgis_enabled": True,
    "attached_apps": [],
    "endpoints": {},
    "created_at": TIME,
    "storage_provisioned_bytes": None,
    "storage_used_bytes": None,
}
ENDPOINT = {"host": ID, "port": WHOLE}
READY = {
    "status": "ready",
    "plan": "basic",
    "cpu_kind": "shared",
    "pg_major_version": "16",
    "disk_size_gb": 10,
    "postgis_enabled": False,
    "endpoints": {"primary": {"direct": ENDPOINT, "pooler": ENDPOINT}},
}
MUTATED = {  # 2.2: zeros and an empty file system in the answers to mutations
    "id": ID,
    "name": "data",
    "state": "created",
    "size_gb": 3,
    "region": "ams",
    "zone": ID,
    "encrypted": True,
    "attached_machine_id": None,
    "attached_alloc_id": None,
    "created_at": TIME,
    "blocks": 0,
    "block_size": 0,
    "blocks_free": 0,
    "blocks_avail": 0,
    "fstype": "",
    "snapshot_retention": 5,
    "auto_backup_enabled": True,
    "host_dedication_key": "",
}
VOLUME = MUTATED | {
    "blocks": WHOLE,
    "block_size": WHOLE,
    "blocks_free": WHOLE,
    "blocks_avail": WHOLE,
    "fstype": "ext4",
}
BACKUP = {
    "id": ID,
    "app_id": ID,
    "volume_id": "vol_1",
    "state": "prepare",
    "type": "BACKUP_TYPE_ON_DEMAND",
    "message": "",
    "created_at": NANOSECONDS,
    "updated_at": NANOSECONDS,
    "finished_at": None,
    "graph_id": Is(r"vs_.+"),
}
SNAPSHOT = {"id": "vs_1", "size": 4096, "digest": ID, "created_at": TIME, "retention_days": 14}
SECRET = {
    "Version": 1,
    "version": 1,
    "created_at": TIME,
    "digest": ID,
    "name": "PG_PASSWORD",
    "updated_at": TIME,
    "value": "x",
}
MACHINE = {
    "id": "m1",
    "name": ID,
    "state": "started",
    "region": "ams",
    "instance_id": ID,
    "private_ip": ID,
    "host_status": "ok",
    "config": {"guest": {"cpus": 1, "cpu_kind": "shared", "memory_mb": 256}, "init": {}, "mounts": []},
    "created_at": TIME,
    "updated_at": TIME,
}
APP = {
    "id": "shop",
    "name": "shop",
    "organization": {"name": "Personal", "slug": "personal"},
    "status": "deployed",
    "machine_count": 1,
}
LEASE = {
    "status": "success",
    "data": {"nonce": ID, "expires_at": WHOLE, "owner": ID, "description": "", "version": ID},
}
NO_LEASE = {"error": "no lease found", "status": "not_found"}
WORLD_HERE = {
    "apps": [{"name": "shop", "primary_region": "ams"}],
    "clusters": [{"id": "cluster1", "name": "orders"}],
    "volumes": [{"id": "vol_1", "app": "shop", "name": "data"}],
    "snapshots": [{"id": "vs_1", "volume_id": "vol_1", "size": 4096, "retention_days": 14}],
    "secrets": [{"app": "shop", "name": "OLD", "value": "x"}],
    "machines": [{"id": "m1", "app": "shop"}],
}
_VOLUMES = "/v1/apps/shop/volumes"
_MACHINES = "/v1/apps/shop/machines"
_NEW_CLUSTER = {
    "org_slug": "personal",
    "plan": "performance",  # matched case-insensitively
    "region": "ams",
    "name": "orders",
    "disk_size_gb": 1000,
    "pg_major_version": "17",
    "pool_mode": "transaction",
    "postgis_enabled": True,
}
_NEW_VOLUME = {
    "name": "data",
    "region": "ams",
    "size_gb": 3,
    "encrypted": True,
    "fstype": "ext4",
    "auto_backup_enabled": True,
    "snapshot_retention": 5,
    "machines_only": True,
    "require_unique_zone": False,
    "compute": {
        "cpu_kind": "performance",
        "cpus": 2,
        "gpu_kind": "a10",
        "gpus": 1,
        "host_dedication_id": "host1",
        "kernel_args": ["quiet"],
        "memory_mb": 4096,
    },
}

# operation → (request, body, status, answer); None as an answer is an empty body
EXAMPLES: Mapping[str, tuple[str, Any, int, Any]] = {
    "cluster_create": ("POST /v1/postgres", _NEW_CLUSTER, 201, {"data": CLUSTER}),
    "cluster_get": ("GET /v1/postgres/cluster1", None, 200, {"data": CLUSTER | READY}),
    "cluster_restore": (
        "POST /v1/postgres/cluster1/restore",
        {"pitr_time": "2026-01-02T01:00:00+01:00", "name": " "},
        201,
        {"data": CLUSTER | READY | {"status": "creating", "endpoints": {}, "name": Is(r"orders 2026.*")}},
    ),
    "cluster_list_all": (
        "GET /v1/postgres?org_slug=personal",
        None,
        200,
        {
            "data": [
                {name: CLUSTER[name] for name in ("id", "name", "region", "attached_apps", "created_at")}
                | {"plan": "basic", "status": "ready"}
            ]
        },
    ),
    "cluster_delete": ("DELETE /v1/postgres/cluster1", None, 202, None),
    "cluster_list_backups": ("GET /v1/postgres/cluster1/backups", None, 200, {"data": []}),
    "volume_list_all": (f"GET {_VOLUMES}", None, 200, [VOLUME]),
    "volume_create": (f"POST {_VOLUMES}", _NEW_VOLUME, 200, MUTATED),
    "volume_get": (f"GET {_VOLUMES}/vol_1", None, 200, VOLUME),
    "volume_update": (
        f"PUT {_VOLUMES}/vol_1",
        {"auto_backup_enabled": False, "snapshot_retention": 60},
        200,
        MUTATED | {"auto_backup_enabled": False, "snapshot_retention": 60},
    ),
    "volume_delete": (
        f"DELETE {_VOLUMES}/vol_1",
        None,
        200,
        MUTATED | {"state": "destroyed", "snapshot_retention": 0},
    ),
    "volume_extend": (
        f"PUT {_VOLUMES}/vol_1/extend",
        {"size_gb": 5},
        200,
        {"volume": MUTATED | {"size_gb": 5}, "needs_restart": False},
    ),
    "snapshot_list_all": (
        f"GET {_VOLUMES}/vol_1/snapshots",
        None,
        200,
        [SNAPSHOT | {"status": "created", "volume_size": WHOLE}],
    ),
    "snapshot_create": (f"POST {_VOLUMES}/vol_1/snapshots", None, 200, {"Msg": {"backup": BACKUP}}),
    "secret_set_value": ("POST /v1/apps/shop/secrets/PG_PASSWORD", {"value": "x"}, 201, SECRET),
    "secret_list_all": (
        "GET /v1/apps/shop/secrets",
        None,
        200,
        {"secrets": [{"name": "OLD", "digest": ID, "created_at": TIME, "updated_at": TIME}]},
    ),
    "secret_get": (
        "GET /v1/apps/shop/secrets/OLD",
        None,
        200,
        {"name": "OLD", "digest": ID, "created_at": TIME, "updated_at": TIME},
    ),
    "secret_set_many": (
        "POST /v1/apps/shop/secrets",
        {"values": {"OLD": None, "NEW": "x"}},
        200,
        {
            "Version": 1,
            "version": 1,
            "secrets": [{"name": "NEW", "digest": ID, "created_at": TIME, "updated_at": TIME}],
        },
    ),
    "secret_delete": ("DELETE /v1/apps/shop/secrets/OLD", None, 200, {"Version": 1, "version": 1}),
    "app_read_list_all": ("GET /v1/apps?org_slug=personal", None, 200, {"total_apps": 1, "apps": [APP]}),
    "app_read_get": ("GET /v1/apps/shop", None, 200, APP),
    "machine_lease_get": (f"GET {_MACHINES}/m1/lease", None, 404, NO_LEASE),
    "machine_lease_take": (f"POST {_MACHINES}/m1/lease", {"ttl": 30}, 201, LEASE),
    "machine_lease_release": (f"DELETE {_MACHINES}/m1/lease", None, 200, {"ok": True}),
    "machine_list_all": (f"GET {_MACHINES}", None, 200, [MACHINE]),
    "machine_get": (f"GET {_MACHINES}/m1", None, 200, MACHINE),
    "machine_power_suspend": (f"POST {_MACHINES}/m1/suspend", None, 200, {"ok": True}),
    "machine_power_wait": (
        f"GET {_MACHINES}/m1/wait?state=started",
        None,
        200,
        {"ok": True, "state": "started"},
    ),
    "machine_power_start": (
        f"POST {_MACHINES}/m1/start",
        None,
        200,
        {"previous_state": "started", "migrated": False, "new_host": ""},
    ),
    "machine_power_stop": (
        f"POST {_MACHINES}/m1/stop",
        {"signal": "SIGTERM", "timeout": 30},
        200,
        {"ok": True},
    ),
    "machine_power_restart": (f"POST {_MACHINES}/m1/restart", None, 200, {"ok": True}),
}


def test_every_endpoint_has_an_example() -> None:
    """Sign-in and webhooks have tests of their own."""
    assert set(EXAMPLES) == {route.name for route in ROUTES if route.guard == "bearer"}


@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("operation", EXAMPLES)
def test_a_documented_example_gives_the_documented_answer(operation: str, strict: bool) -> None:
    sent, body, status, answer = EXAMPLES[operation]
    method, _, target = sent.partition(" ")
    with Platform(seed=WORLD_HERE, apps=(), wall=RECORDED, strict=strict) as platform:
        headers = {"authorization": "Bearer sandbox", "content-type": "application/json"}
        response = platform.call(method, target, body, headers)
    assert response.status == status, response.body
    assert differing(response.json() if response.body else None, answer) == []


def differing(found: Any, expected: Any, at: str = "") -> list[str]:
    """Paths at which `found` is not as expected; fields must be the same ones."""
    if isinstance(expected, Is):
        text = str(found) if isinstance(found, int | str) and not isinstance(found, bool) else ""
        return [] if re.fullmatch(expected.pattern, text) else [f"{at}: {found!r}"]
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [f"{at}: fields {set(found) ^ set(expected)}"] if set(found) != set(expected) else []
        both = [name for name in expected if name in found]
        return names + [
            problem for name in both for problem in differing(found[name], expected[name], f"{at}.{name}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [
            problem
            for number, item in enumerate(expected)
            for problem in differing(found[number], item, f"{at}[{number}]")
        ]
    same = found == expected and type(found) is type(expected)
    return [] if same else [f"{at}: {found!r}"]


@pytest.mark.parametrize("cassette", sorted(CASSETTES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_cassette_replayed_gives_the_same_status_and_shape(cassette: Path) -> None:
    options = {"profile": "documented", **UNLIKE.get(cassette.stem, {})}
    with Platform(seed=WORLD, apps=(), wall=RECORDED, **options) as platform:
        for interaction in yaml.safe_load(cassette.read_text())["interactions"]:
            request, recorded = interaction["request"], interaction["response"]
            body = (request["body"] or "").encode()
            target = urlsplit(request["uri"])._replace(scheme="", netloc="").geturl()
            answer = platform.call(request["method"], target, body)
            assert answer.status == recorded["status"]["code"]
            text = recorded["body"]["string"]
            assert shape(answer.json()) == shape(json.loads(text)), text
            assert answer.content_type == recorded["headers"]["content-type"][0]


def shape(value: Any) -> Any:
    """The types in a JSON value; a time differs from other text."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items() if name != "value"}
    if isinstance(value, list):
        return [shape(found) for found in value]
    if isinstance(value, str) and parse_time(value):
        return "time"
    return type(value).__name__
