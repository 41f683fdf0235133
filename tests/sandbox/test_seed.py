"""Worlds to start with: what they carry, and the message about a slip in one. Source: docs/sandbox.md."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.errors import StoreError
from tests.sandbox.platform import NOON, Platform

VOLUMES = "/v1/apps/shop/volumes"
MACHINES = "/v1/apps/shop/machines"


def planted(seed: Any, *, passed_s: float = 0, **options: Any) -> Platform:
    return Platform(seed=seed, apps=(), wall=NOON + passed_s, **options)


def problem_of(seed: Any) -> str:
    with pytest.raises(StoreError) as refused:
        planted(seed, seed_name="world.yaml")
    return str(refused.value)


def copied(platform: Platform, passed_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The world, and that of a sandbox that it was planted into as a file, at the same time."""
    world = platform.world()
    copy = planted(json.loads(json.dumps(world)), passed_s=passed_s)
    found = copy.world()
    copy.sandbox.close()
    return world, found


def test_what_is_unfinished_or_failed_stays_so(platform: Platform) -> None:
    ids = [platform.volume(name=name)["id"] for name in ("failed", "done", "running", "waiting")]
    platform.switch(snapshot_outcome="failed")
    for number, id in enumerate(ids):
        platform.ok("POST", f"{VOLUMES}/{id}/snapshots")
        if number < 2:
            platform.advance(20)
            platform.switch(snapshot_outcome="created")
        elif number == 2:
            platform.advance(5)
    world, copy = copied(platform, 45)
    assert [snapshot["status"] for snapshot in world["snapshots"]] == [
        "failed",
        "created",
        "running",
        "waiting",
    ]
    assert copy == world


def test_backups_versions_and_instances_are_carried(platform: Platform) -> None:
    platform.cluster(name="orders", pool_mode="transaction")
    gone = platform.cluster(name="gone")["id"]
    platform.advance(200)
    platform.ok("DELETE", f"/v1/postgres/{gone}")
    for value in ("x", "y"):
        platform.ok("POST", "/v1/apps/shop/secrets/A", {"value": value})
    platform.machine()
    platform.advance(3700)
    world, copy = copied(platform, 3900)
    assert copy == world
    with planted(world, passed_s=3900) as again:
        backups = f"/v1/postgres/{world['clusters'][0]['id']}/backups"
        assert again.ok("GET", backups) == platform.ok("GET", backups)
        assert again.ok("POST", "/v1/apps/shop/secrets/A", {"value": "z"})["version"] == 3
        instances = [item.ok("GET", f"{MACHINES}/m1")["instance_id"] for item in (platform, again)]
        assert instances[0] == instances[1]


DEEDS: dict[str, tuple[str, str, Any]] = {
    "volume": ("POST", VOLUMES, {"name": "data", "require_unique_zone": False}),
    "raw volume": ("POST", VOLUMES, {"name": "raw", "fstype": "raw", "encrypted": False, "region": "fra"}),
    "extend": ("PUT", f"{VOLUMES}/VOLUME/extend", {"size_gb": 20}),
    "update": ("PUT", f"{VOLUMES}/VOLUME", {"snapshot_retention": 2}),
    "snapshot": ("POST", f"{VOLUMES}/VOLUME/snapshots", None),
    "fork": ("POST", VOLUMES, {"name": "fork", "source_volume_id": "VOLUME", "size_gb": 30}),
    "delete": ("DELETE", f"{VOLUMES}/VOLUME", None),
    "cluster": ("POST", "/v1/postgres", {"org_slug": "acme", "plan": "launch", "region": "fra"}),
    "secret": ("POST", "/v1/apps/shop/secrets/A", {"value": "x"}),
    "attach": ("POST", "/_sandbox/machines", {"app": "shop", "id": "m1", "volumes": ["VOLUME"]}),
    "machine": (
        "POST",
        "/_sandbox/machines",
        {
            "app": "shop",
            "id": "m2",
            "swap_size_mb": 5,
            "schedule": "daily",
            "updated_at": "0001-01-01T00:00:00Z",
        },
    ),
    "suspend": ("POST", f"{MACHINES}/m1/suspend", None),
    "start": ("POST", f"{MACHINES}/m1/start", None),
    "stop": ("POST", f"{MACHINES}/m1/stop", None),
    "deploy": ("POST", "/_sandbox/machines/m1/deploy", None),
    "migrate": ("POST", "/_sandbox/machines/m1/migrate", None),
    "lose": ("POST", "/_sandbox/machines/m1/lose_snapshot", None),
    "provider": (
        "POST",
        "/_sandbox/providers",
        {"name": "store", "encoding": "base64", "costs_path": "/costs"},
    ),
    "user": ("POST", "/_sandbox/users", {"id": "ann", "organizations": [{"id": "acme", "role": "admin"}]}),
    "resource": ("POST", "/_sandbox/resources", {"provider": "store", "id": "db-1", "status": "ready"}),
    "failing": ("POST", "/_sandbox/switches", {"snapshot_outcome": "failed", "cluster_outcome": "error"}),
}
PASSING = st.sampled_from([1, 5, 20, 200, 3700, 90_000])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(DEEDS)) | PASSING, min_size=4, max_size=25))
def test_the_world_of_any_history_is_the_seed_of_the_same_world(history: list[str | int]) -> None:
    with Platform(apps=[{"name": "shop", "org_slug": "acme", "primary_region": "ams"}]) as platform:
        passed_s = 0
        for deed in ["volume", "attach", *history]:
            if isinstance(deed, int):
                platform.advance(deed)
                passed_s += deed
                continue
            volumes = [volume["id"] for volume in platform.ok("GET", VOLUMES)] or ["vol_none"]
            method, target, body = json.loads(json.dumps(DEEDS[deed]).replace("VOLUME", volumes[-1]))
            platform.call(method, target, body)
        world, copy = copied(platform, passed_s)
    assert copy == world


def of(part: str, **fields: Any) -> dict[str, Any]:
    """A seed with one item of a part; a volume or secret has its app and its name."""
    usual = {"app": "shop", "name": "a"} if part in ("volumes", "secrets") else {}
    return {part: [usual | fields]}


YEAR_1 = "0001-01-01T00:00:00Z"
TWICE = [{"app": "shop", "name": name, "id": "v"} for name in ("a", "b")]
SLIPS: dict[str, tuple[Any, str]] = {
    "an unknown field": (
        {"volumes": [{"app": "shop", "name": "a"}, {"app": "shop", "name": "b", "sizegb": 3}]},
        "world.yaml: volumes[1].sizegb: is unknown; volumes have id, app",
    ),
    "an unknown part": ({"appz": []}, "world.yaml: appz: is unknown; a seed has apps, "),
    "a part that is no list": ({"apps": "shop"}, "world.yaml: apps: must be a list"),
    "an item that is no mapping": ({"apps": ["shop"]}, "world.yaml: apps[0]: must be a mapping"),
    "a missing field": ({"volumes": [{"name": "a"}]}, "volumes[0].app: is required"),
    "a text for a number": (of("volumes", size_gb="3"), "volumes[0].size_gb: must be a whole number"),
    "a text for a truth": (of("volumes", encrypted="yes"), "volumes[0].encrypted: must be true or false"),
    "a number for a text": (
        of("clusters", pg_major_version=16),
        "clusters[0].pg_major_version: must be text",
    ),
    "a text for a mapping": (
        of("clusters", organization="acme"),
        "clusters[0].organization: must be a mapping",
    ),
    "an infinite size": (of("volumes", size_gb=float("inf")), "volumes[0].size_gb: must be"),
    "a bogus state": (
        of("machines", app="shop", state="flying"),
        "machines[0].state: must be one of started, running",
    ),
    "a bogus status": (of("clusters", status="fine"), "clusters[0].status: must be one of creating"),
    "a long retention": (
        of("volumes", snapshot_retention=900),
        "volumes[0].snapshot_retention: must be less than or equal to 60",
    ),
    "an unknown file system": (of("volumes", fstype="zfs"), "volumes[0].fstype: must be one of ext4, raw"),
    "an id for no path": (of("volumes", id="a/b"), "volumes[0].id: must be letters, digits"),
    "an id twice": ({"volumes": TWICE}, "volumes[1]: v is volumes[0] already"),
    "a secret twice": (
        {"secrets": of("secrets")["secrets"] * 2},
        "secrets[1]: shop/a is secrets[0] already",
    ),
    "a bad date": (of("volumes", created_at="yesterday"), "volumes[0].created_at: must be a date and time"),
    "a date of year 1": (of("volumes", created_at=YEAR_1), "volumes[0].created_at: must be a date and time"),
    "a machine that is not there": (
        of("volumes", attached_machine_id="ghost"),
        "volumes[0].attached_machine_id: there is no machine ghost in app shop",
    ),
    "a volume that is not there": (
        of("machines", app="shop", volumes=["nope"]),
        "machines[0]: app shop has no volume nope",
    ),
    "a snapshot of nothing": (
        of("snapshots", volume_id="nope"),
        "snapshots[0].volume_id: there is no volume nope",
    ),
    "an app that is not there": (
        of("clusters", attached_apps=[{"name": "shop"}]),
        "clusters[0].attached_apps[0].name: there is no app shop",
    ),
    "a list": ([], "world.yaml: a seed is a mapping"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_named_with_its_place(slip: str) -> None:
    seed, says = SLIPS[slip]
    problem = problem_of(seed)
    assert problem.startswith("world.yaml: ")
    assert says in problem
    for internal in ("pydantic", "Item", "object has no attribute", "NoneType", "dict"):
        assert internal not in problem


def test_all_slips_are_told_together() -> None:
    problem = problem_of({"apps": [{"name": 5}], "volumes": [{"app": "shop", "name": "a", "size_gb": 0}]})
    assert [line.partition(": must")[0] for line in problem.splitlines()] == [
        "world.yaml: apps[0].name",
        "world.yaml: volumes[0].size_gb",
    ]


def test_no_secret_stands_in_an_error() -> None:
    problem = problem_of(
        {"secrets": [{"app": "shop", "name": "A", "value": "hunter2", "fingerprint": "hunter2"}]}
    )
    assert "secrets[0].fingerprint" in problem
    assert "hunter2" not in problem


def test_a_volume_without_a_zone_gets_one_that_no_other_of_its_name_has() -> None:
    first = planted({"apps": [{"name": "shop"}]})
    zone = first.volume()["zone"]
    first.sandbox.close()
    named = [{"app": "shop", "name": "data"} for _ in range(3)]
    with planted({"volumes": [*named, {"app": "shop", "name": "data", "zone": zone}]}) as seeded:
        zones = [volume["zone"] for volume in seeded.ok("GET", VOLUMES)]
        assert zone in zones
        assert len(set(zones)) == 4
        assert seeded.call("POST", VOLUMES, {"name": "data"}).status == 200
        assert seeded.call("POST", VOLUMES, {"name": "data"}).status == 422


def test_a_volume_that_is_seeded_old_does_not_live_its_days_again() -> None:
    volume = {"id": "vol_1", "app": "shop", "name": "data", "created_at": "2026-02-26T06:00:00Z"}
    with planted({"volumes": [volume]}) as seeded:
        seeded.advance(17 * 3600)
        assert seeded.ok("GET", f"{VOLUMES}/vol_1/snapshots") == []
        seeded.advance(2 * 3600)
        assert len(seeded.ok("GET", f"{VOLUMES}/vol_1/snapshots")) == 1


def test_a_snapshot_outlives_its_volume_in_a_seed_too() -> None:
    alone = {"id": "vs_1", "volume_id": "vol_gone", "app": "shop", "volume_size": 5 * 1000**3}
    with planted({"snapshots": [alone]}) as seeded:
        body = {"name": "back", "snapshot_id": "vs_1", "region": "ams", "size_gb": 5}
        assert seeded.ok("POST", VOLUMES, body)["state"] == "restoring"


def test_a_seed_without_apps_is_planted_once(tmp_path: Path) -> None:
    seed = {"clusters": [{"id": "orders0000000000"}]}
    for _ in range(2):
        with Platform(tmp_path / "world.db", seed=seed, apps=()) as seeded:
            assert [cluster["id"] for cluster in seeded.world()["clusters"]] == ["orders0000000000"]
            if not seeded.log():
                seeded.ok("PATCH", "/_sandbox/world/clusters/orders0000000000", {"disk_size_gb": 20})
            assert seeded.world()["clusters"][0]["disk_size_gb"] == 20
            seeded.ok("GET", "/v1/postgres")


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    seed = tmp_path / "seed.json"
    seed.write_text("{")
    with pytest.raises(StoreError, match=r"seed\.json is not a seed"):
        planted(seed)
