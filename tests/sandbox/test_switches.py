"""Each point that the platform leaves open, played both ways. Source: platform notes."""

from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from reconciler.sandbox import switches
from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"
MACHINES = "/v1/apps/shop/machines"


def test_each_switch_is_listed_with_its_default_and_what_is_expected(platform: Platform) -> None:
    platform.switch(secret_status=200)
    listed = platform.ok("GET", "/_sandbox/switches")
    assert set(listed) == set(switches.SWITCHES) == set(platform.sandbox.world.switches)
    assert listed["secret_status"] == {
        "value": 200,
        "default": 201,
        "allowed": [201, 200],
        "about": "the status of setting a secret",
        "client": "treat both as success",
    }
    assert listed["read_lag_s"]["lowest"] == 0
    assert listed["zones_per_region"]["highest"] == 1000
    for name, switch in listed.items():
        assert switch["about"], name
        assert switch["client"], name


@pytest.mark.parametrize(
    ("form", "body", "content_type"),
    [
        ("error", b'{"error":"volume not found","status":"not_found"}', "application/json"),
        ("message", b'{"message":"volume not found","status":"not_found"}', "application/json"),
        ("errors.detail", b'{"errors":{"detail":"volume not found"}}', "application/json"),
        ("text", b"volume not found", "text/plain; charset=utf-8"),
        ("empty", b"", "application/json"),
    ],
)
def test_the_text_of_an_error_stands_in_many_places(
    platform: Platform, form: str, body: bytes, content_type: str
) -> None:
    platform.switch(error_text=form)
    refused = platform.call("GET", f"{VOLUMES}/vol_1")
    assert (refused.status, refused.body, refused.content_type) == (404, body, content_type)


@pytest.mark.parametrize(
    ("form", "shown"), [("null", {"attached_machine_id": None}), ("missing", {}), ("empty", {})]
)
def test_not_attached_has_three_spellings(platform: Platform, form: str, shown: dict[str, Any]) -> None:
    platform.switch(attached_none=form)
    for volume in (platform.volume(), platform.ok("GET", VOLUMES)[0]):
        found = {"attached_machine_id": volume.get("attached_machine_id", "missing")}
        assert found == {"attached_machine_id": {"null": None, "empty": ""}.get(form, "missing")}


def test_volumes_can_be_read_with_fields_that_no_document_names(platform: Platform) -> None:
    platform.switch(volume_fields="known")
    created, listed = platform.volume(), platform.ok("GET", VOLUMES)[0]
    assert "host_status" not in created
    assert listed["host_status"] == "ok"


@pytest.mark.parametrize(
    ("failure", "status"), [("insufficient_capacity", 422), ("volume_placement_capacity", 412)]
)
def test_placement_can_fail(platform: Platform, failure: str, status: int) -> None:
    platform.switch(placement=failure)
    refused = platform.call("POST", VOLUMES, {"name": "data"})
    assert (refused.status, refused.json()["status"]) == (status, failure)
    assert platform.world()["volumes"] == []


@pytest.mark.parametrize(("form", "says"), [("region", "region ams"), ("plain", "place"), ("empty", "")])
def test_the_text_for_zones_used_up_is_not_to_be_relied_on(platform: Platform, form: str, says: str) -> None:
    platform.switch(zones_per_region=1, zones_used_up_text=form)
    platform.volume()
    text = platform.call("POST", VOLUMES, {"name": "data"}).json()["error"]
    assert says in text
    assert bool(text) is bool(says)


def test_a_listed_snapshot_can_be_bare(platform: Platform) -> None:
    platform.switch(snapshot_fields="bare")
    id = platform.volume()["id"]
    platform.ok("POST", f"{VOLUMES}/{id}/snapshots")
    platform.advance(12)
    (listed,) = platform.ok("GET", f"{VOLUMES}/{id}/snapshots")
    assert set(listed) == {"id", "size", "digest", "created_at"}


def test_the_lists_of_a_new_app_can_be_missing_for_a_while(platform: Platform) -> None:
    platform.switch(new_app_404_s=5)
    platform.app("till")
    lists = [f"/v1/apps/till/{group}" for group in ("volumes", "secrets", "machines")]
    assert {platform.call("GET", path).json()["error"] for path in lists} == {"Could not find App"}
    assert platform.call("POST", "/v1/apps/till/volumes", {"name": "data"}).status == 200
    platform.advance(5)
    assert {platform.call("GET", path).status for path in lists} == {200}


def test_a_volume_stays_bound_for_a_while_to_a_machine_that_is_gone(platform: Platform) -> None:
    platform.switch(detach_lag_s=10)
    id = platform.volume()["id"]
    platform.machine(volumes=[id])
    platform.by_hand("destroy")
    platform.advance(11)
    assert platform.ok("GET", f"{MACHINES}/m1")["state"] == "destroyed"
    assert platform.call("DELETE", f"{VOLUMES}/{id}").status == 412
    platform.advance(1)
    assert platform.call("DELETE", f"{VOLUMES}/{id}").status == 200


def test_rate_limits_are_off_unless_they_are_turned_on(platform: Platform) -> None:
    assert {platform.call("GET", VOLUMES).status for _ in range(20)} == {200}


def test_three_requests_at_once_and_then_one_a_second(platform: Platform) -> None:
    platform.switch(rate_limit="on")
    platform.app("till")
    assert [platform.call("GET", VOLUMES).status for _ in range(4)] == [200, 200, 200, 429]
    assert platform.call("GET", "/v1/apps/till/volumes").status == 200
    assert platform.call("POST", VOLUMES, {"name": "data"}).status == 200
    platform.advance(1)
    assert [platform.call("GET", VOLUMES).status for _ in range(2)] == [200, 429]


def test_one_machine_is_read_ten_times_at_once_and_then_five_a_second(platform: Platform) -> None:
    platform.switch(rate_limit="on")
    platform.machine()
    statuses = [platform.call("GET", f"{MACHINES}/m1").status for _ in range(11)]
    platform.advance(1)
    statuses += [platform.call("GET", f"{MACHINES}/m1").status for _ in range(6)]
    platform.ok("POST", "/_sandbox/machines", {"app": "shop", "id": "m2"})
    assert platform.call("GET", f"{MACHINES}/m2").status == 200
    assert statuses == [200] * 10 + [429] + [200] * 5 + [429]


@pytest.mark.parametrize("form", ["seconds", "date", "missing"])
def test_a_refused_request_says_when_to_come_back_or_not(platform: Platform, form: str) -> None:
    platform.switch(rate_limit="on", retry_after=form)
    limited = [platform.call("POST", VOLUMES, {"name": "data"}) for _ in range(4)][-1]
    assert (limited.status, limited.json()["status"]) == (429, "resource_exhausted")
    said = limited.headers.get("retry-after")
    if form == "seconds":
        assert said == "1"
    elif form == "date":
        assert parsedate_to_datetime(said or "").isoformat() == "2026-03-01T12:00:01+00:00"
    else:
        assert said is None
    assert len(platform.world()["volumes"]) == 3


@pytest.mark.parametrize("switch", [{"nothing": 1}, {"secret_status": 500}])
def test_a_switch_that_does_not_exist_is_refused_at_the_start_too(switch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="switch"):
        Platform(switch=switch)


def test_switches_are_set_at_the_start() -> None:
    with Platform(switch={"secret_status": 200}) as platform:
        assert platform.call("POST", "/v1/apps/shop/secrets/A", {"value": "x"}).status == 200


def test_a_deleted_volume_may_be_listed_for_good(platform: Platform) -> None:
    platform.switch(deleted_volume="destroyed")
    id = platform.volume()["id"]
    platform.ok("DELETE", f"{VOLUMES}/{id}")
    assert [volume["state"] for volume in platform.ok("GET", VOLUMES)] == ["destroyed"]
    assert platform.call("DELETE", f"{VOLUMES}/{id}").status == 410
    platform.advance(25 * 3600)
    assert len(platform.ok("GET", VOLUMES)) == 1


def test_nulls_can_be_left_out_of_every_answer(platform: Platform) -> None:
    platform.cluster()
    platform.switch(nulls="missing")
    created = platform.volume()
    assert not {"attached_machine_id", "attached_alloc_id"} & set(created)
    (cluster,) = platform.ok("GET", "/v1/postgres")["data"]
    assert None not in platform.ok("GET", f"/v1/postgres/{cluster['id']}")["data"].values()
