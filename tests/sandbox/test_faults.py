"""Scripts of faults: which requests are hit, and what their clients see. Source: DESIGN, 7."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.platform import Platform
from tests.sandbox.test_machine_wait import front

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
    platform.machine()
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
    platform.app("till")
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
        {"action": "status", "sttus": 1},
        {"action": "status", "status": 99},
        {"faults": [{"action": "html", "probability": 2}]},
        {"faults": [], "sede": 1},
        {"action": "oversize", "size_bytes": 1 << 40},
        {"action": "html", "times": 0},
        {"action": "html", "times": -3},
        {"action": "html", "method": "FOO"},
        {"action": "delay", "delay_s": float("inf")},
        {"action": "delay", "delay_s": 1e12},
        {"action": "html", "probability": float("nan")},
        {"action": "status", "body": {"a": float("inf")}},
        {"action": "status", "headers": {"a\r\nb": "c"}},
        {"action": "status", "headers": {"x": "a\r\nb: c"}},
        {"action": "status", "headers": {"x": "ä€"}},
        {"action": "status", "headers": {"Content-Length": "5"}},
        {"action": "rate_limited", "retry_after": "1\r\nx: y"},
        "hello",
        5,
    ],
)
def test_a_misspelt_script_is_refused(platform: Platform, script: Any) -> None:
    raw = json.dumps(script).replace("Infinity", "1e400").replace("NaN", "-1").encode()
    refused = platform.call("POST", "/_sandbox/faults", raw)
    assert refused.status == 422
    assert not re.search("Fault|Script|dataclass|pydantic|None", refused.json()["error"])
    with pytest.raises(ValueError, match=r"\w"):
        Platform(script=script)


def test_the_faults_to_come_are_listed(platform: Platform) -> None:
    platform.fault(action="drip", delay_s=1, path="/v1/postgres*", times=2)
    (listed,) = platform.ok("GET", "/_sandbox/faults")
    assert (listed["action"], listed["path"], listed["times"]) == ("drip", "/v1/postgres*", 2)
    json.dumps(listed)


def test_the_word_of_a_method_may_be_in_lower_case(platform: Platform) -> None:
    platform.fault(action="status", status=503, method="get", headers={"Retry-After": "3"})
    hit = platform.call("GET", VOLUMES)
    assert (hit.status, hit.headers["retry-after"]) == (503, "3")


def test_faults_that_are_refused_today_are_dropped_from_an_older_world(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    older = Platform(db)
    older.fault(action="html", times=2)
    older.sandbox.faults.pending[0].times = -1
    older.switch(secret_status=200)
    older.sandbox.close()
    with Platform(db) as newer:
        assert newer.ok("GET", "/_sandbox/faults") == []


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_must_have_no_body_has_none(platform: Platform, status: int) -> None:
    platform.fault(action="status", status=status, body={"error": "fault"})
    async with front(platform) as client:
        answer = await client.get(VOLUMES)
    assert (answer.status_code, answer.content) == (status, b"")
    assert {"content-length", "content-type"}.isdisjoint(answer.headers)
