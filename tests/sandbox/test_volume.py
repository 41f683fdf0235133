"""Source: platform API, 2.2, 3.2, 4.2; platform notes, "Volumes"."""

import re
from typing import Any

import pytest

from reconciler.services.machines.wire.volume import Volume
from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"
BLOCKS = {"blocks": 0, "block_size": 0, "blocks_free": 0, "blocks_avail": 0, "fstype": ""}


def test_a_new_volume_has_the_defaults_and_zeros_where_documented(platform: Platform) -> None:
    volume = platform.volume()
    assert re.fullmatch(r"vol_[a-z0-9]{16}", volume["id"])
    assert set(volume) == set(Volume.model_fields)
    assert volume == volume | BLOCKS | {
        "name": "data",
        "state": "created",
        "size_gb": 3,
        "region": "ams",
        "encrypted": True,
        "attached_machine_id": None,
        "attached_alloc_id": None,
        "snapshot_retention": 5,
        "auto_backup_enabled": True,
        "host_dedication_key": "",
    }


def test_reads_show_blocks_and_the_file_system(platform: Platform) -> None:
    created = platform.volume(size_gb=10)
    (listed,) = platform.ok("GET", VOLUMES)
    assert listed == platform.ok("GET", f"{VOLUMES}/{created['id']}")
    assert (listed["fstype"], listed["block_size"], listed["size_gb"]) == ("ext4", 4096, 10)
    assert listed["blocks"] > listed["blocks_free"] > listed["blocks_avail"] > 0
    unchanged = set(listed) - set(BLOCKS)
    assert {name: listed[name] for name in unchanged} == {name: created[name] for name in unchanged}


@pytest.mark.parametrize(
    "body",
    [
        {"name": None},
        {"name": " "},
        {"size_gb": 0},
        {"size_gb": 1.5},
        {"snapshot_retention": 0},
        {"snapshot_retention": 61},
        {"encrypted": "yes"},
        {"fstype": "ntfs"},
        {"compute": {"cpu_kind": "quantum"}},
        {"compute": []},
        {"snapshot_id": "vs_1"},
        {"snapshot_id": "vs_1", "source_volume_id": "vol_1", "region": "ams"},
    ],
)
def test_an_invalid_create_is_refused(platform: Platform, body: dict[str, Any]) -> None:
    response = platform.call("POST", VOLUMES, {"name": "data", **body})
    assert (response.status, response.json()["status"]) == (422, "invalid_argument")
    assert platform.world()["volumes"] == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"name": NaN}', b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_bad_request(platform: Platform, body: bytes) -> None:
    assert platform.call("POST", VOLUMES, body).status == 400


def test_a_missing_app_is_told_apart_from_a_missing_volume(platform: Platform) -> None:
    assert platform.call("GET", "/v1/apps/nobody/volumes").json() == {"error": "Could not find App"}
    platform.app("till")
    id = platform.volume()["id"]
    elsewhere = platform.call("GET", f"/v1/apps/till/volumes/{id}")
    assert (elsewhere.status, elsewhere.json()["error"]) == (404, "volume not found")


def test_an_update_changes_only_what_it_names(platform: Platform) -> None:
    id = platform.volume(size_gb=10)["id"]
    updated = platform.ok("PUT", f"{VOLUMES}/{id}", {"snapshot_retention": 14, "auto_backup_enabled": None})
    assert updated == updated | BLOCKS | {"snapshot_retention": 14, "auto_backup_enabled": True}
    assert platform.call("PUT", f"{VOLUMES}/{id}", {"snapshot_retention": 61}).status == 422
    platform.ok("PUT", f"{VOLUMES}/{id}", {"snapshot_retention": 14})
    assert [entry["effect"] for entry in platform.log()] == [True, True, False, False]


@pytest.mark.parametrize(
    ("setting", "attached", "needs_restart"),
    [
        ("attached", True, True),
        ("attached", False, False),
        ("always", False, True),
        ("never", True, False),
    ],
)
def test_an_extend_says_whether_the_machine_must_restart(
    platform: Platform, setting: str, attached: bool, needs_restart: bool
) -> None:
    platform.switch(extend_needs_restart=setting)
    id = platform.volume(size_gb=10)["id"]
    platform.machine(volumes=[id] if attached else [])
    answer = platform.ok("PUT", f"{VOLUMES}/{id}/extend", {"size_gb": 20})
    assert set(answer) == {"volume", "needs_restart"}
    assert answer["needs_restart"] is needs_restart
    assert answer["volume"] == answer["volume"] | BLOCKS | {"size_gb": 20}


@pytest.mark.parametrize("status", [422, 400, 200])
@pytest.mark.parametrize("size_gb", [9, 10])
def test_a_volume_cannot_be_made_smaller(platform: Platform, status: int, size_gb: int) -> None:
    platform.switch(extend_not_larger=status)
    id = platform.volume(size_gb=10)["id"]
    assert platform.call("PUT", f"{VOLUMES}/{id}/extend", {"size_gb": size_gb}).status == status
    assert platform.ok("GET", f"{VOLUMES}/{id}")["size_gb"] == 10


def test_a_deleted_volume_stays_listed_for_a_day(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=14)["id"]
    deleted = platform.ok("DELETE", f"{VOLUMES}/{id}")
    assert deleted == deleted | BLOCKS | {"state": "destroyed", "snapshot_retention": 0}
    platform.advance(24 * 3600 - 1)
    (listed,) = platform.ok("GET", VOLUMES)
    assert (listed["state"], listed["snapshot_retention"]) == ("pending_destroy", 14)
    assert platform.call("DELETE", f"{VOLUMES}/{id}").status == 410
    assert platform.call("PUT", f"{VOLUMES}/{id}/extend", {"size_gb": 9}).status == 412
    platform.advance(1)
    assert platform.ok("GET", VOLUMES) == []
    assert platform.call("GET", f"{VOLUMES}/{id}").status == 404


def test_an_attached_volume_is_not_deleted(platform: Platform) -> None:
    id = platform.volume()["id"]
    machine = platform.machine(volumes=[id])
    assert machine["config"]["mounts"] == [{"volume": id, "path": "/data"}]
    assert platform.ok("GET", f"{VOLUMES}/{id}")["attached_machine_id"] == "m1"
    refused = platform.call("DELETE", f"{VOLUMES}/{id}")
    message = "failed_precondition: volume is currently bound to machine: m1"
    assert (refused.status, refused.json()) == (412, {"error": message})
    platform.machine(volumes=[])
    assert platform.ok("DELETE", f"{VOLUMES}/{id}")["state"] == "destroyed"


def test_a_fork_is_hydrated_and_must_not_be_smaller(platform: Platform) -> None:
    """Without a size: as the switch says. The document gives a default of 3 GB, and says nothing of forks."""
    source = platform.volume(size_gb=10, region="fra")["id"]
    assert platform.volume(name="same", source_volume_id=source)["size_gb"] == 10
    platform.switch(fork_size="default")
    assert platform.call("POST", VOLUMES, {"name": "copy", "source_volume_id": source}).status == 422
    fork = platform.volume(name="copy", source_volume_id=source, size_gb=12)
    assert (fork["state"], fork["region"]) == ("hydrating", "fra")
    platform.advance(30)
    assert platform.ok("GET", f"{VOLUMES}/{fork['id']}")["state"] == "created"


@pytest.mark.parametrize(
    ("status", "code"), [(422, "insufficient_capacity"), (412, "volume_placement_capacity")]
)
def test_unique_zones_are_used_up(platform: Platform, status: int, code: str) -> None:
    platform.switch(zones_per_region=2, zones_used_up=status)
    zones = {platform.volume()["zone"], platform.volume()["zone"]}
    refused = platform.call("POST", VOLUMES, {"name": "data"})
    assert (refused.status, refused.json()["status"]) == (status, code)
    assert platform.volume(require_unique_zone=False)["zone"] in zones
    assert platform.volume(region="fra")["zone"] not in zones
    assert platform.volume(name="other")["zone"] in zones


def test_reads_can_lag_behind_a_change(platform: Platform) -> None:
    platform.switch(read_lag_s=10)
    id = platform.volume(size_gb=10)["id"]
    assert platform.ok("PUT", f"{VOLUMES}/{id}/extend", {"size_gb": 20})["volume"]["size_gb"] == 20
    assert platform.ok("GET", f"{VOLUMES}/{id}")["size_gb"] == 10
    platform.advance(10)
    assert platform.ok("GET", f"{VOLUMES}/{id}")["size_gb"] == 20
    platform.ok("DELETE", f"{VOLUMES}/{id}")
    assert platform.ok("GET", VOLUMES)[0]["state"] == "created"
    platform.advance(10)
    assert platform.ok("GET", VOLUMES)[0]["state"] == "pending_destroy"


def test_a_snapshot_is_restored_where_the_app_has_a_machine(platform: Platform) -> None:
    """Source: platform API, 4.2: the region must be that of the machine to attach to."""
    id = platform.volume()["id"]
    platform.ok("POST", f"{VOLUMES}/{id}/snapshots")
    platform.advance(60)
    (snapshot,) = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    body = {"name": "data", "snapshot_id": snapshot["id"], "region": "fra"}
    assert platform.call("POST", VOLUMES, body).status == 200
    platform.machine(region="ams")
    refused = platform.call("POST", VOLUMES, body)
    assert (refused.status, "ams" in refused.json()["error"]) == (422, True)
    assert platform.call("POST", VOLUMES, {**body, "region": "ams"}).status == 200
