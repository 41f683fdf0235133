"""Source: platform API, 2.3, 2.4, 4.2; platform notes, "Snapshots"."""

import re
from typing import Any

import pytest

from reconciler.services.machines.wire.volume import Snapshot
from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"
TAKEN_S = 12


def take(platform: Platform, volume_id: str) -> dict[str, Any]:
    backup: dict[str, Any] = platform.ok("POST", f"{VOLUMES}/{volume_id}/snapshots")["Msg"]["backup"]
    return backup


def test_an_on_demand_snapshot_answers_the_backup_record(platform: Platform) -> None:
    id = platform.volume()["id"]
    backup = take(platform, id)
    assert re.fullmatch(r"vs_[a-z0-9]{16}", backup["graph_id"])
    assert re.fullmatch(r"2026-03-01T12:00:00\.\d{9}Z", backup["created_at"])
    assert backup == backup | {
        "volume_id": id,
        "state": "prepare",
        "type": "BACKUP_TYPE_ON_DEMAND",
        "message": "",
        "finished_at": None,
    }


def test_a_snapshot_appears_unfinished_and_becomes_usable(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=14)["id"]
    backup = take(platform, id)
    assert platform.ok("GET", f"{VOLUMES}/{id}/snapshots") == []
    platform.advance(2)
    (running,) = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    assert (running["created_at"], running["size"]) == ("0001-01-01T00:00:00Z", 0)
    assert not Snapshot.model_validate(running).usable
    platform.advance(10)
    (finished,) = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    assert Snapshot.model_validate(finished).usable
    assert (finished["id"], finished["created_at"]) == (backup["graph_id"], "2026-03-01T12:00:12Z")
    assert (finished["retention_days"], finished["size"] > 0) == (14, True)


def test_one_snapshot_at_a_time(platform: Platform) -> None:
    id = platform.volume()["id"]
    take(platform, id)
    refused = platform.call("POST", f"{VOLUMES}/{id}/snapshots")
    message = "failed_precondition: snapshot is already scheduled at 2026-03-01T12:00:00Z"
    assert (refused.status, refused.json()) == (412, {"error": message})
    platform.advance(TAKEN_S)
    assert take(platform, id)["state"] == "prepare"


def test_a_volume_is_restored_from_a_snapshot_that_outlived_its_volume(platform: Platform) -> None:
    id = platform.volume(size_gb=10)["id"]
    snapshot = take(platform, id)["graph_id"]
    platform.advance(TAKEN_S)
    platform.ok("DELETE", f"{VOLUMES}/{id}")
    platform.advance(25 * 3600)
    restored = platform.volume(snapshot_id=snapshot, region="fra", size_gb=10)
    assert (restored["state"], restored["region"]) == ("restoring", "fra")
    platform.advance(20)
    assert platform.ok("GET", f"{VOLUMES}/{restored['id']}")["state"] == "created"


def test_a_snapshot_vanishes_after_its_retention(platform: Platform) -> None:
    id = platform.volume(snapshot_retention=1, auto_backup_enabled=False)["id"]
    take(platform, id)
    platform.advance(TAKEN_S + 24 * 3600)
    assert platform.ok("GET", f"{VOLUMES}/{id}/snapshots") == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"size_gb": None}, 422),
        ({"size_gb": 9}, 422),
        ({"region": None}, 422),
        ({"snapshot_id": "vs_0"}, 404),
    ],
)
def test_a_restore_is_refused_when_it_cannot_work(
    platform: Platform, change: dict[str, Any], status: int
) -> None:
    snapshot = take(platform, platform.volume(size_gb=10)["id"])["graph_id"]
    platform.advance(TAKEN_S)
    body = {"name": "copy", "snapshot_id": snapshot, "region": "ams", "size_gb": 10, **change}
    assert platform.call("POST", VOLUMES, body).status == status


def test_an_unfinished_or_failed_snapshot_is_no_source(platform: Platform) -> None:
    platform.switch(snapshot_outcome="failed")
    body = {
        "name": "copy",
        "snapshot_id": take(platform, platform.volume()["id"])["graph_id"],
        "region": "ams",
    }
    assert platform.call("POST", VOLUMES, body).status == 422
    platform.advance(TAKEN_S)
    assert platform.call("POST", VOLUMES, body).status == 422


def test_the_answer_can_be_empty_and_the_list_documented_only(platform: Platform) -> None:
    platform.switch(snapshot_reply="empty", snapshot_fields="documented")
    id = platform.volume()["id"]
    response = platform.call("POST", f"{VOLUMES}/{id}/snapshots")
    assert (response.status, response.body) == (200, b"")
    platform.advance(TAKEN_S)
    (listed,) = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    assert set(listed) == {"id", "size", "digest", "created_at", "retention_days"}
