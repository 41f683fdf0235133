"""Control verbs, faults, the log and the clock. Source: DESIGN, 7."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.sandbox.clock import WorldClock
from reconciler.sandbox.description import description
from tests.sandbox.platform import NOON, Platform

VOLUMES = "/v1/apps/shop/volumes"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "sandbox"}])
def test_the_platform_wants_the_token_and_the_control_verbs_do_not(
    platform: Platform, headers: dict[str, str]
) -> None:
    refused = platform.call("POST", "/v1/postgres", {}, headers)
    assert (refused.status, refused.json()) == (401, {"error": "unauthorized"})
    assert platform.call("GET", "/_sandbox/world", headers=headers).status == 200


def test_the_log_tells_what_changed_the_world(platform: Platform) -> None:
    id = platform.volume()["id"]
    platform.ok("GET", VOLUMES)
    platform.call("PUT", f"{VOLUMES}/{id}/extend", {"size_gb": 1})
    first, *rest = platform.log()
    assert first == {
        "seq": 1,
        "at": "2026-03-01T12:00:00.000Z",
        "method": "POST",
        "path": VOLUMES,
        "status": 200,
        "effect": True,
    }
    assert [(entry["status"], entry["effect"]) for entry in rest] == [(200, False), (422, False)]
    assert [entry["seq"] for entry in platform.ok("GET", "/_sandbox/log?since=2")] == [3]
    assert platform.call("GET", f"/_sandbox/log?since={10**18}").status == 422


@pytest.mark.parametrize(
    ("fault", "status", "cut", "effect"),
    [
        ({"action": "status", "status": 503}, 503, "", False),
        ({"action": "status", "status": 503, "after": True}, 503, "", True),
        ({"action": "html"}, 502, "", False),
        ({"action": "drop_before"}, 0, "drop", False),
        ({"action": "drop_after"}, 0, "drop", True),
        ({"action": "truncate"}, 200, "truncate", True),
        ({"action": "delay", "delay_s": 2.5}, 200, "", True),
    ],
)
def test_a_fault_spoils_one_request(
    platform: Platform, fault: dict[str, Any], status: int, cut: str, effect: bool
) -> None:
    platform.fault(method="POST", path="/v1/apps/*/volumes", **fault)
    platform.ok("GET", VOLUMES)
    spoiled = platform.call("POST", VOLUMES, {"name": "data"})
    assert (spoiled.status, spoiled.cut, spoiled.delay_s) == (status, cut, fault.get("delay_s", 0))
    assert len(platform.world()["volumes"]) == effect
    assert platform.log()[-1]["effect"] is effect
    assert platform.log()[-1]["status"] == status
    assert platform.volume()["state"] == "created"
    assert platform.ok("GET", "/_sandbox/faults") == []


def test_a_fault_without_an_end_stays_until_it_is_cleared(platform: Platform) -> None:
    platform.fault(action="status", status=500, times=None)
    assert [platform.call("GET", VOLUMES).status for _ in range(3)] == [500] * 3
    platform.ok("DELETE", "/_sandbox/faults")
    assert platform.call("GET", VOLUMES).status == 200


@pytest.mark.parametrize(
    "body",
    [{"zones_per_region": 0}, {"zones_per_region": 1_000_000_000}, {"secret_status": 500}, {"nothing": 1}],
)
def test_a_switch_takes_only_its_own_values(platform: Platform, body: dict[str, Any]) -> None:
    before = platform.ok("GET", "/_sandbox/switches")
    assert platform.call("POST", "/_sandbox/switches", body).status == 422
    assert platform.ok("GET", "/_sandbox/switches") == before


def test_registering_an_app_again_changes_only_what_is_given(platform: Platform) -> None:
    platform.app("shop", primary_region="fra")
    again = platform.app("shop")
    assert again == {"name": "shop", "org_slug": "personal", "primary_region": "fra"}
    assert platform.volume()["region"] == "fra"


def test_a_human_edits_volumes_and_clusters_past_the_rules(platform: Platform) -> None:
    id, cluster = platform.volume(size_gb=10)["id"], platform.cluster()["id"]
    at, there = f"/_sandbox/world/volumes/{id}", f"/_sandbox/world/clusters/{cluster}"
    edited = platform.ok("PATCH", at, {"size_gb": 5, "attached_machine_id": "m9"})
    assert (edited["size_gb"], edited["attached_machine_id"], edited["app"]) == (5, "m9", "shop")
    platform.ok("PATCH", at, {"attached_machine_id": None})
    assert platform.ok("GET", f"{VOLUMES}/{id}")["attached_machine_id"] is None
    assert platform.ok("PATCH", there, {"status": "failed"})["status"] == "failed"
    refused: list[tuple[str, dict[str, Any]]] = [
        (at, {"id": "x"}),
        (at, {"region": None}),
        (there, {"plan": "huge"}),
        (there, {"attached_apps": ["shop"]}),
    ]
    assert {platform.call("PATCH", path, body).status for path, body in refused} == {422}


def test_answers_carry_the_sandboxs_date_and_a_request_id(platform: Platform) -> None:
    platform.advance(3600)
    headers = platform.call("GET", VOLUMES).headers
    assert headers["date"] == "Sun, 01 Mar 2026 13:00:00 GMT"
    assert headers["x-request-id"]


def test_unknown_paths_and_methods_are_told_apart(platform: Platform) -> None:
    assert platform.call("GET", "/v1/nothing").status == 404
    wrong = platform.call("PATCH", VOLUMES)
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
    assert platform.call("HEAD", VOLUMES).status == 200
    assert platform.call("GET", f"{VOLUMES}?region=ams&unknown=1").status == 200


def test_an_encoded_name_is_decoded_once(platform: Platform) -> None:
    reply = platform.ok("POST", "/v1/apps/shop/secrets/A%2FB%2541", {"value": "x"})
    assert reply["name"] == "A/B%41"


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    with Platform(db) as before:
        before.machine(volumes=[before.volume()["id"]], memory_mb=512)
        before.cluster()
        before.ok("POST", "/v1/apps/shop/secrets/A", {"value": "x"})
        before.ok("POST", "/v1/apps/shop/machines/m1/suspend")
        before.switch(zones_per_region=1)
        before.fault(action="status", times=2, method="DELETE")
        before.call("DELETE", VOLUMES)
        before.advance(60)
        world, log = before.world(), before.log()
    with Platform(db) as after:
        assert after.world() == world
        assert after.log() == log
        assert after.ok("GET", "/_sandbox/switches")["zones_per_region"]["value"] == 1
        assert [fault["times"] for fault in after.ok("GET", "/_sandbox/faults")] == [1]


def test_the_clock_stands_still_while_down_and_jumps_to_the_real_time(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    with Platform(db) as before:
        id = before.cluster()["id"]
        before.advance(3600)
    with Platform(db, wall=NOON) as earlier:
        assert earlier.ok("GET", "/_sandbox/clock")["now"] == "2026-03-01T13:00:00.000000Z"
        earlier.ok("DELETE", f"/v1/postgres/{id}")
    with Platform(db, wall=NOON + 86400) as later:
        assert later.ok("GET", "/_sandbox/clock")["now"] == "2026-03-02T12:00:00.000000Z"
        (gone,) = later.ok("GET", "/v1/postgres?include_deleted=1")["data"]
    assert gone["deleted_at"] == "2026-03-01T13:01:00Z"


def test_things_happen_when_the_clock_passes_them_without_a_reader(platform: Platform) -> None:
    platform.cluster()
    platform.sandbox.clock.advance(200)
    platform.sandbox.tick()
    assert platform.sandbox.world.next_due is None
    assert platform.world()["clusters"][0]["status"] == "ready"


@pytest.mark.parametrize(("setting", "passed"), [("real", 10), ("manual", 0), ("x600", 6000), ("x0.5", 5)])
def test_the_clock_runs_as_set(setting: str, passed: float) -> None:
    ticks = iter([0.0, 10.0])
    clock = WorldClock(setting, wall=lambda: 1000.0, monotonic=lambda: next(ticks))
    assert clock.now() == 1000 + passed


@pytest.mark.parametrize("setting", ["fast", "x0", "x", "x-1", "x1000001", "x99999999999999999999"])
def test_no_other_clock_exists(setting: str) -> None:
    with pytest.raises(ValueError, match="is not a clock"):
        WorldClock(setting)


def test_nobody_can_move_the_clock_to_where_dates_end(platform: Platform) -> None:
    platform.volume()
    century = {"advance_s": 100 * 365 * 24 * 3600}
    statuses = [platform.call("POST", "/_sandbox/clock", century).status for _ in range(75)]
    assert (statuses[0], statuses[-1]) == (200, 422)
    assert platform.call("GET", VOLUMES).status == 200


def test_a_clock_that_runs_stops_before_dates_end() -> None:
    passed = iter([0.0, 0.0, 1e6])
    with Platform(clock="x1000000", monotonic=lambda: next(passed, 1e6)) as platform:
        assert platform.ok("GET", "/_sandbox/clock")["now"] == "9000-01-01T00:00:00.000000Z"
        id = platform.volume()["id"]
        assert platform.ok("GET", f"{VOLUMES}/{id}")["created_at"] == "9000-01-01T00:00:00.000Z"


@pytest.mark.parametrize("body", [{"cpus": 10**400}, {"memory_mb": 2**60}])
def test_a_number_beyond_those_of_every_client_is_refused(platform: Platform, body: dict[str, int]) -> None:
    assert platform.call("POST", "/_sandbox/machines", {"app": "shop", **body}).status == 422


def test_an_organization_can_be_registered_without_an_app(platform: Platform) -> None:
    assert platform.ok("POST", "/_sandbox/apps", {"org_slug": "acme"}) == {"org_slug": "acme"}
    assert platform.call("POST", "/_sandbox/apps", {}).status == 422
    schemas = description(platform.sandbox)["components"]["schemas"]
    assert [item["required"] for item in schemas["AppRegistration"]["anyOf"]] == [["name"], ["org_slug"]]
    assert "required" not in schemas["AppRegistration"]
    assert schemas["AppRegistered"]["required"] == ["org_slug"]


def test_the_log_shows_bodies_when_asked_and_no_value_of_a_secret(platform: Platform) -> None:
    platform.volume(size_gb=4)
    platform.ok("POST", "/v1/apps/shop/secrets/A", {"value": "hunter2"})
    platform.ok("POST", "/v1/apps/shop/secrets", {"values": {"B": "hunter2", "A": None}})
    platform.ok("GET", "/v1/apps/shop/volumes")
    assert all("body" not in entry for entry in platform.log())
    bodies = [body["body"] for body in platform.ok("GET", "/_sandbox/log?bodies=1")]
    assert bodies == [
        {"name": "data", "size_gb": 4},
        {"value": "(sensitive)"},
        {"values": {"B": "(sensitive)", "A": None}},
        None,
    ]


def test_a_person_edits_what_no_call_can_set_and_a_seed_carries_it(platform: Platform) -> None:
    id, cluster = platform.volume()["id"], platform.cluster()["id"]
    edit = {"attached_alloc_id": "alloc1", "host_dedication_key": "key1"}
    edited = platform.ok("PATCH", f"/_sandbox/world/volumes/{id}", edit)
    assert {name: edited[name] for name in edit} == edit
    apps = [{"name": "shop"}]
    attached = platform.ok("PATCH", f"/_sandbox/world/clusters/{cluster}", {"attached_apps": apps})
    assert attached["attached_apps"] == apps
    with Platform(seed=platform.world(), apps=()) as again:
        assert {name: again.ok("GET", f"/v1/apps/shop/volumes/{id}")[name] for name in edit} == edit
        assert again.ok("GET", f"/v1/postgres/{cluster}")["data"]["attached_apps"] == apps


@pytest.mark.parametrize(("verb", "state"), [("maintenance", "restarting"), ("crash", "failed")])
def test_maintenance_and_a_crash_lose_the_memory_of_a_machine(
    platform: Platform, verb: str, state: str
) -> None:
    platform.machine()
    shown = platform.by_hand(verb)
    assert (shown["state"], shown["memory_kept"]) == (state, False)


def test_a_volume_can_be_filled_and_keeps_what_is_used_when_it_grows(platform: Platform) -> None:
    id = platform.volume(size_gb=10)["id"]
    path = f"/_sandbox/world/volumes/{id}"
    edited = platform.ok("PATCH", path, {"blocks_free": 1000, "blocks_avail": 0})
    assert (edited["blocks_free"], edited["blocks_avail"]) == (1000, 0)
    platform.ok("PUT", f"/v1/apps/shop/volumes/{id}/extend", {"size_gb": 11})
    volume = platform.ok("GET", f"/v1/apps/shop/volumes/{id}")
    assert volume["blocks_free"] == 1000 + 2**30 // volume["block_size"]
    assert platform.call("PATCH", path, {"blocks_free": -1}).status == 422


def test_added_space_is_in_the_file_system_once_the_machine_starts_anew(platform: Platform) -> None:
    id = platform.volume(size_gb=10)["id"]
    machine = platform.ok("POST", "/_sandbox/machines", {"app": "shop", "volumes": [id]})["id"]
    path, blocks = f"/_sandbox/world/volumes/{id}", 2**30 // 4096
    platform.ok("PATCH", path, {"blocks_free": 3 * blocks})

    def seen() -> tuple[int, int, int]:
        shown = platform.ok("GET", f"/v1/apps/shop/volumes/{id}")
        return shown["size_gb"], shown["blocks"] // blocks, shown["blocks_free"] // blocks

    platform.ok("PUT", f"/v1/apps/shop/volumes/{id}/extend", {"size_gb": 12})
    assert seen() == (12, 10, 3)
    with Platform(seed=platform.world(), apps=()) as again:
        assert again.ok("GET", f"/v1/apps/shop/volumes/{id}")["blocks"] == 10 * blocks
    platform.ok("POST", f"/_sandbox/machines/{machine}/restart")
    platform.advance(60)
    assert seen() == (12, 12, 5)
    platform.ok("PATCH", path, {"blocks": 11 * blocks})
    assert seen() == (12, 11, 5)


def test_a_seed_says_how_full_a_volume_is_in_blocks_of_any_size(platform: Platform) -> None:
    volume = {"id": "vol_full", "app": "shop", "name": "full", "region": "ams", "size_gb": 10}
    fill = {"blocks": 1280, "block_size": 8 * 2**20, "blocks_free": 128, "blocks_avail": 64}
    with Platform(seed={"volumes": [{**volume, **fill}]}) as seeded:
        shown = seeded.ok("GET", "/v1/apps/shop/volumes/vol_full")
    blocks = 2**30 // 4096
    assert [shown[name] // blocks for name in ("blocks", "blocks_free")] == [10, 1]
    assert shown["blocks_avail"] == blocks // 2
