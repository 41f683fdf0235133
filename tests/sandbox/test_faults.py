"""Scripts of faults: which requests are hit, and what their clients see. Source: DESIGN, 7."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.platform import Platform

VOLUMES = "/v1/apps/shop/volumes"


def test_the_same_seed_hits_the_same_requests() -> None:
    def hits(seed: int) -> list[bool]:
        platform = Platform(
            script={
                "seed": seed,
                "faults": [{"action": "status", "status": 503, "times": None, "probability": 0.3}],
            }
        )
        found = [platform.call("GET", VOLUMES).status == 503 for _ in range(200)]
        platform.sandbox.close()
        return found

    assert hits(1) == hits(1) != hits(2)
    assert 40 < sum(hits(1)) < 80


def test_a_draw_that_spares_a_request_leaves_it_to_the_next_fault(platform: Platform) -> None:
    platform.fault(action="status", status=503, probability=0)
    platform.fault(action="status", status=502)
    assert [platform.call("GET", VOLUMES).status for _ in range(2)] == [502, 200]


def test_draws_go_on_where_they_were_after_a_restart(tmp_path: Path) -> None:
    script = {"seed": 5, "faults": [{"action": "html", "times": None, "probability": 0.5}]}

    def statuses(*, restarted: bool) -> list[int]:
        db = tmp_path / f"{restarted}.db"
        platform = Platform(db, script=script)
        found = [platform.call("GET", VOLUMES).status for _ in range(20)]
        if restarted:
            platform.sandbox.close()
            platform = Platform(db)
        found += [platform.call("GET", VOLUMES).status for _ in range(20)]
        platform.sandbox.close()
        return found

    assert statuses(restarted=True) == statuses(restarted=False)


@pytest.mark.parametrize("said", [None, 3, "Sun, 01 Mar 2026 12:00:09 GMT"])
def test_a_rate_limit_comes_with_and_without_retry_after(platform: Platform, said: int | str | None) -> None:
    platform.fault(action="rate_limited", retry_after=said)
    limited = platform.call("POST", VOLUMES, {"name": "data"})
    assert (limited.status, limited.headers.get("retry-after")) == (429, said and str(said))
    assert platform.world()["volumes"] == []


def test_every_value_can_have_the_wrong_type(platform: Platform) -> None:
    id = platform.volume()["id"]
    platform.fault(action="wrong_type", method="GET")
    volume = platform.ok("GET", f"{VOLUMES}/{id}")
    assert volume["size_gb"] == "about 3"
    assert (volume["state"], volume["encrypted"], volume["attached_machine_id"]) == (7, [True], None)
    assert platform.ok("GET", f"{VOLUMES}/{id}")["size_gb"] == 3


def test_every_word_of_a_closed_list_can_be_one_of_tomorrow(platform: Platform) -> None:
    platform.cluster(name="orders")
    platform.fault(action="unknown_enum", method="GET", path="/v1/postgres")
    (cluster,) = platform.ok("GET", "/v1/postgres")["data"]
    assert {cluster["status"], cluster["plan"]} == {"word_of_tomorrow"}
    assert cluster["name"] == "orders"


def test_an_oversized_body_is_the_same_json(platform: Platform) -> None:
    platform.volume()
    platform.fault(action="oversize", size_bytes=5000, method="GET")
    large = platform.call("GET", VOLUMES)
    assert len(large.body) == 5000
    assert large.json() == platform.ok("GET", VOLUMES)


def test_a_dripping_answer_has_its_effect(platform: Platform) -> None:
    platform.fault(action="drip", delay_s=0.5, method="POST")
    assert platform.call("POST", VOLUMES, {"name": "data"}).drip_s == 0.5
    assert len(platform.world()["volumes"]) == 1


def test_every_list_can_be_stale(platform: Platform) -> None:
    volume = platform.volume()["id"]
    platform.ok("POST", "/_sandbox/machines", {"app": "shop", "id": "m1"})
    stale = {
        "/v1/postgres": {"data": []},
        VOLUMES: platform.ok("GET", VOLUMES),
        f"{VOLUMES}/{volume}/snapshots": [],
        "/v1/apps/shop/secrets": {"secrets": []},
        "/v1/apps/shop/machines": platform.ok("GET", "/v1/apps/shop/machines"),
        "/v1/apps/till/volumes": [],
        "/v1/apps/till/secrets": {"secrets": []},
    }
    platform.fault(action="stale_list", method="GET", times=len(stale))
    platform.ok("POST", "/_sandbox/apps", {"name": "till"})
    platform.cluster()
    platform.volume()
    for app in ("shop", "till"):
        platform.ok("POST", f"/v1/apps/{app}/secrets/A", {"value": "x"})
        platform.ok("POST", f"/v1/apps/{app}/volumes", {"name": "more"})
        platform.ok("POST", "/_sandbox/machines", {"app": app})
    platform.ok("POST", f"{VOLUMES}/{volume}/snapshots")
    platform.advance(12)
    assert {path: platform.ok("GET", path) for path in stale} == stale
    assert all(platform.ok("GET", path) != shown for path, shown in stale.items())


@pytest.mark.parametrize(
    "script",
    [
        {"action": "explode"},
        {"faults": [{"action": "html", "probability": 2}]},
        {"faults": [], "sede": 1},
        {"action": "oversize", "size_bytes": 1 << 40},
    ],
)
def test_a_misspelt_script_is_refused(platform: Platform, script: Any) -> None:
    assert platform.call("POST", "/_sandbox/faults", script).status == 422
    with pytest.raises(ValueError, match=r"\w"):
        Platform(script=script)


def test_the_faults_to_come_are_listed(platform: Platform) -> None:
    platform.fault(action="drip", delay_s=1, path="/v1/postgres*", times=2)
    (listed,) = platform.ok("GET", "/_sandbox/faults")
    assert (listed["action"], listed["path"], listed["times"]) == ("drip", "/v1/postgres*", 2)
    json.dumps(listed)
