"""Source: platform API, 2.1, 3.1, 4.1, 7.1; platform notes, "Postgres"."""

import re
from typing import Any

import pytest

from reconciler.services.machines.wire.cluster import Cluster
from tests.sandbox.platform import Platform

PROVISIONING_S = 150
MISSING: Any = object()


def test_a_new_cluster_has_every_documented_field_and_the_defaults(platform: Platform) -> None:
    cluster = platform.cluster(plan="LAUNCH", name="orders")
    assert re.fullmatch(r"[a-z0-9]{16}", cluster["id"])
    assert set(cluster) == set(Cluster.model_fields)
    assert cluster == cluster | {
        "name": "orders",
        "organization": {"name": "Personal", "slug": "personal"},
        "plan": "launch",
        "pg_major_version": "16",
        "status": "creating",
        "cpu_kind": "performance",
        "cpus": 2,
        "memory_mb": 8192,
        "disk_size_gb": 10,
        "postgis_enabled": False,
        "attached_apps": [],
        "endpoints": {},
        "created_at": "2026-03-01T12:00:00Z",
        "storage_provisioned_bytes": None,
        "storage_used_bytes": None,
    }


def test_endpoints_appear_only_when_the_cluster_is_ready(platform: Platform) -> None:
    id = platform.cluster()["id"]
    seen = []
    for seconds in (0, 30, 120):
        platform.advance(seconds)
        data = platform.ok("GET", f"/v1/postgres/{id}")["data"]
        seen.append((data["status"], bool(data["endpoints"])))
    assert seen == [("creating", False), ("initializing", False), ("ready", True)]
    assert data["endpoints"]["primary"]["pooler"]["port"] == 5432


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"org_slug": MISSING}, 400, "org_slug"),
        ({"org_slug": None}, 400, "org_slug"),
        ({"org_slug": 7}, 400, "org_slug"),
        ({"org_slug": "nobody"}, 404, "Organization not found"),
        ({"plan": "huge"}, 422, "plan"),
        ({"plan": None}, 422, "plan"),
        ({"region": MISSING}, 422, "region"),
        ({"disk_size_gb": 9}, 422, "disk_size_gb"),
        ({"disk_size_gb": 1001}, 422, "disk_size_gb"),
        ({"disk_size_gb": "10"}, 422, "disk_size_gb"),
        ({"disk_size_gb": True}, 422, "disk_size_gb"),
        ({"pg_major_version": "15"}, 422, "pg_major_version"),
        ({"pool_mode": "statement"}, 422, "pool_mode"),
        ({"postgis_enabled": "yes"}, 422, "postgis_enabled"),
    ],
)
def test_a_bad_create_is_refused_and_changes_nothing(
    platform: Platform, body: dict[str, Any], status: int, says: str
) -> None:
    wanted = {"org_slug": "personal", "plan": "basic", "region": "ams", **body}
    response = platform.call(
        "POST", "/v1/postgres", {name: value for name, value in wanted.items() if value is not MISSING}
    )
    assert response.status == status
    assert list(response.json()) == ["error"]
    assert says in response.json()["error"]
    assert platform.world()["clusters"] == []


def test_nulls_mean_missing_and_unknown_fields_are_ignored(platform: Platform) -> None:
    cluster = platform.cluster(disk_size_gb=None, name=None, labels={"team": "shop"})
    assert cluster["disk_size_gb"] == 10
    assert cluster["name"].startswith("pg-")


def test_an_organization_exists_once_an_app_names_it(platform: Platform) -> None:
    platform.app("till", org_slug="acme")
    platform.ok("POST", "/_sandbox/apps", {"org_slug": "bare"})
    assert [platform.cluster(org_slug=slug)["organization"]["slug"] for slug in ("acme", "bare")] == [
        "acme",
        "bare",
    ]


def test_a_ready_cluster_has_one_full_backup_to_restore_from(platform: Platform) -> None:
    source = platform.cluster(plan="scale", disk_size_gb=40)
    platform.advance(PROVISIONING_S)
    (backup,) = platform.ok("GET", f"/v1/postgres/{source['id']}/backups")["data"]
    assert (backup["type"], backup["finished_at"]) == ("full", "2026-03-01T12:02:30Z")
    response = platform.call("POST", f"/v1/postgres/{source['id']}/restore", {"backup_id": backup["id"]})
    restored = response.json()["data"]
    assert (response.status, restored["status"]) == (201, "creating")
    assert (restored["plan"], restored["disk_size_gb"]) == ("scale", 40)
    assert restored["id"] != source["id"]
    assert source["name"] in restored["name"]
    assert backup["id"] in restored["name"]


@pytest.mark.parametrize("at", ["2026-03-01T12:02:30Z", "2026-03-01T14:03:00.5+02:00"])
def test_a_moment_inside_the_window_can_be_restored(platform: Platform, at: str) -> None:
    source = platform.cluster()["id"]
    platform.advance(PROVISIONING_S + 60)
    restored = platform.ok("POST", f"/v1/postgres/{source}/restore", {"pitr_time": at, "name": "copy"})
    assert restored["data"]["name"] == "copy"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"backup_id": "a", "pitr_time": "2026-03-01T12:03:00Z"}, 422),
        ({"pitr_time": "2026-03-01T12:03:00"}, 422),
        ({"pitr_time": "yesterday"}, 422),
        ({"pitr_time": "2026-03-01T12:00:00Z"}, 422),
        ({"pitr_time": "2026-03-02T12:00:00Z"}, 422),
        ({"pitr_time": "2026-03-01T12:03:00Z", "name": "x" * 64}, 422),
        ({"backup_id": "unknown"}, 404),
    ],
)
def test_a_restore_needs_exactly_one_target_that_exists(
    platform: Platform, body: dict[str, Any], status: int
) -> None:
    source = platform.cluster()["id"]
    platform.advance(PROVISIONING_S + 60)
    response = platform.call("POST", f"/v1/postgres/{source}/restore", body)
    assert response.status == status
    assert list(response.json()) == ["error"]
    assert len(platform.world()["clusters"]) == 1


def test_deleting_is_asynchronous_and_a_repeat_is_gone(platform: Platform) -> None:
    id = platform.cluster()["id"]
    first = platform.call("DELETE", f"/v1/postgres/{id}")
    again = platform.call("DELETE", f"/v1/postgres/{id}")
    platform.advance(60)
    late = platform.call("DELETE", f"/v1/postgres/{id}")
    assert (first.status, first.body) == (202, b"")
    assert (again.status, again.json()) == (410, {"error": "This cluster is being deleted"})
    assert (late.status, late.json()) == (410, {"error": "This cluster has been deleted"})
    assert platform.ok("GET", f"/v1/postgres/{id}")["data"]["status"] == "deleted"
    platform.switch(deleted_cluster_get=404)
    assert platform.call("GET", f"/v1/postgres/{id}").json() == {"error": "Cluster not found"}


def test_the_list_shows_deleted_clusters_on_request_only(platform: Platform) -> None:
    gone, other = platform.cluster(name="orders")["id"], platform.cluster(name="orders")["id"]
    platform.ok("DELETE", f"/v1/postgres/{gone}")
    platform.advance(60)
    listed = platform.ok("GET", "/v1/postgres?org_slug=personal")["data"]
    everything = platform.ok("GET", "/v1/postgres?include_deleted=true")["data"]
    assert [shown["id"] for shown in listed] == [other]
    assert "endpoints" not in listed[0]
    assert {cluster["id"]: cluster.get("deleted_at") for cluster in everything} == {
        gone: "2026-03-01T12:01:00Z",
        other: None,
    }


def test_storage_is_measured_hourly(platform: Platform) -> None:
    id = platform.cluster()["id"]
    platform.advance(PROVISIONING_S + 3599)
    assert platform.ok("GET", f"/v1/postgres/{id}")["data"]["storage_used_bytes"] is None
    platform.advance(1)
    first = platform.ok("GET", f"/v1/postgres/{id}")["data"]
    platform.advance(3600)
    second = platform.ok("GET", f"/v1/postgres/{id}")["data"]
    assert first["storage_provisioned_bytes"] == 10 * 1024**3
    assert first["storage_used_bytes"] < second["storage_used_bytes"]


def test_provisioning_can_be_switched_to_fail_and_names_to_collide(platform: Platform) -> None:
    platform.switch(cluster_outcome="error", cluster_name_collision="refuse")
    id = platform.cluster(name="orders")["id"]
    body = {"org_slug": "personal", "plan": "basic", "region": "ams", "name": "orders"}
    assert platform.call("POST", "/v1/postgres", body).status == 422
    platform.advance(PROVISIONING_S)
    data = platform.ok("GET", f"/v1/postgres/{id}")["data"]
    assert (data["status"], data["endpoints"]) == ("error", {})


def test_the_documented_profile_knows_only_documented_endpoints() -> None:
    with Platform(profile="documented") as platform:
        id = platform.cluster()["id"]
        extended = {
            ("GET", "/v1/postgres"): 405,
            ("DELETE", f"/v1/postgres/{id}"): 405,
            ("GET", f"/v1/postgres/{id}/backups"): 404,
            ("GET", "/v1/apps/shop/secrets"): 404,
            ("DELETE", "/v1/apps/shop/secrets/A"): 405,
        }
        assert {sent: platform.call(*sent).status for sent in extended} == extended


def test_what_the_document_leaves_open_can_be_switched(platform: Platform) -> None:
    platform.switch(cluster_create="failed")
    wish = {"org_slug": "personal", "plan": "basic", "region": "ams"}
    refused = platform.call("POST", "/v1/postgres", wish)
    assert (refused.status, refused.json()) == (400, {"error": "creation failed"})
    platform.switch(cluster_create="ok", cluster_defaults="other")
    other = platform.cluster(plan="basic")
    assert (other["disk_size_gb"], other["pg_major_version"], other["postgis_enabled"]) == (20, "17", True)
    platform.advance(PROVISIONING_S)
    path = f"/v1/postgres/{other['id']}/restore"
    assert platform.call("POST", path, {}).status == 422
    for status in (200, 202):
        platform.switch(restore_target="optional", restore_status=status)
        assert platform.call("POST", path, {}).status == status


def test_a_backup_is_made_on_demand_once_in_a_second(platform: Platform) -> None:
    id = platform.cluster()["id"]
    path = f"/_sandbox/world/clusters/{id}/backups"
    assert platform.call("POST", path).status == 412  # it is not ready
    platform.advance(PROVISIONING_S)
    assert platform.call("POST", path).status == 412  # there is that of its provisioning
    platform.advance(1)
    made = platform.ok("POST", path)
    first, second = platform.ok("GET", f"/v1/postgres/{id}/backups")["data"]
    assert (second, second["status"], second["id"]) == (made, "completed", "20260301-120231F")
    assert first["id"] == "20260301-120230F"
