"""Suspend, resume, stop, restart, wait. Source: platform API, 3.3, 4.4, 8; platform notes, "Machines"."""

from typing import Any

import pytest

from tests.sandbox.platform import Platform

MACHINES = "/v1/apps/shop/machines"
M1 = f"{MACHINES}/m1"


def state(platform: Platform) -> str:
    word: str = platform.ok("GET", M1)["state"]
    return word


def saved(platform: Platform) -> tuple[str, bool]:
    """The state, and whether a start resumes the machine."""
    return state(platform), platform.only("machines")["snapshot"]


def booted_at(platform: Platform) -> str:
    at: str = platform.only("machines")["booted_at"]
    return at.removeprefix("2026-03-01T")


def suspended(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(10)
    assert state(platform) == "suspended"


@pytest.mark.parametrize("lasts_s", [10, 90])
def test_a_suspend_is_accepted_and_done_later_as_switched(platform: Platform, lasts_s: int) -> None:
    platform.switch(suspending_s=lasts_s)
    platform.machine()
    assert platform.ok("POST", f"{M1}/suspend") == {"ok": True}
    assert saved(platform) == ("suspending", False)
    platform.advance(lasts_s - 0.1)
    assert state(platform) == "suspending"
    platform.advance(0.1)
    assert saved(platform) == ("suspended", True)


@pytest.mark.parametrize(
    "body",
    [
        {"memory_mb": 2048},
        {"swap_size_mb": 0},
        {"updated_at": "2024-06-20T20:00:00Z"},
        {"updated_at": "0001-01-01T00:00:00Z"},
        {"state": "running"},
    ],
)
def test_a_machine_that_just_keeps_the_rules_is_suspended(platform: Platform, body: dict[str, Any]) -> None:
    platform.machine(**body)
    assert platform.call("POST", f"{M1}/suspend").status == 200


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"memory_mb": 2049}, "memory of 2049 MB is above 2048 MB"),
        ({"swap_size_mb": 1}, "has swap"),
        ({"schedule": "daily"}, "has a schedule"),
        ({"updated_at": "2024-06-20T19:59:59Z"}, "was last updated before 2024-06-20 20:00 UTC"),
    ],
)
def test_a_machine_that_breaks_a_rule_is_not_suspended(
    platform: Platform, body: dict[str, Any], rule: str
) -> None:
    platform.machine(**body)
    refused = platform.call("POST", f"{M1}/suspend")
    assert (refused.status, refused.json()["status"]) == (412, "failed_precondition")
    assert refused.json()["error"].startswith("failed_precondition: ")
    assert rule in refused.json()["error"]
    assert state(platform) == "started"
    platform.switch(suspend_refusal="plain")
    plain = platform.call("POST", f"{M1}/suspend")
    assert (plain.status, rule in plain.json()["error"]) == (412, False)
    assert [entry["effect"] for entry in platform.log()] == [False] * 3


def test_a_deploy_makes_an_old_machine_one_that_can_be_suspended(platform: Platform) -> None:
    platform.machine(updated_at="2020-01-01T00:00:00Z")
    platform.by_hand("deploy")
    platform.advance(7)
    assert platform.call("POST", f"{M1}/suspend").status == 200


REFUSED = {
    "suspend": ("created", "stopped", "stopping", "starting", "failed", "destroyed"),
    "start": ("stopping", "restarting", "destroyed"),
    "restart": ("suspended", "stopped", "suspending"),
    "stop": ("destroyed",),
}


@pytest.mark.parametrize(
    ("verb", "present"), [(verb, present) for verb, states in REFUSED.items() for present in states]
)
def test_a_state_may_forbid_a_call(platform: Platform, verb: str, present: str) -> None:
    platform.machine(state=present)
    refused = platform.call("POST", f"{M1}/{verb}")
    assert (refused.status, refused.json()["status"]) == (412, "failed_precondition")
    assert f"current state: '{present}'" in refused.json()["error"]


@pytest.mark.parametrize(
    ("verb", "present", "switch"),
    [
        ("suspend", "suspended", "suspend_repeated"),
        *(("start", word, "start_repeated") for word in ("started", "running", "starting")),
    ],
)
def test_a_repeated_call_is_accepted_or_refused_as_switched(
    platform: Platform, verb: str, present: str, switch: str
) -> None:
    platform.machine(state=present)
    platform.ok("POST", f"{M1}/{verb}")
    assert platform.log()[-1]["effect"] is False
    platform.switch(**{switch: 412})
    assert platform.call("POST", f"{M1}/{verb}").status == 412


def test_a_suspended_machine_resumes_without_a_boot(platform: Platform) -> None:
    suspended(platform)
    answer = platform.ok("POST", f"{M1}/start")
    assert answer == {"previous_state": "suspended", "migrated": False, "new_host": ""}
    assert state(platform) == "starting"
    assert platform.call("POST", f"{M1}/restart").status == 412  # it resumes, and does not restart
    platform.advance(2)
    assert (state(platform), booted_at(platform)) == ("started", "12:00:00Z")


@pytest.mark.parametrize("verb", ["deploy", "migrate", "lose_snapshot"])
def test_a_discarded_snapshot_makes_the_next_start_cold(platform: Platform, verb: str) -> None:
    suspended(platform)
    platform.by_hand(verb)
    assert saved(platform) == ("suspended", False)
    answer = platform.ok("POST", f"{M1}/start")
    assert (answer["previous_state"], answer["migrated"]) == ("suspended", verb == "migrate")
    assert bool(answer["new_host"]) is (verb == "migrate")
    platform.advance(2)
    assert (state(platform), booted_at(platform)) == ("started", "12:00:12Z")


@pytest.mark.parametrize("prefix", [MACHINES, "/_sandbox/machines"])
def test_stopping_a_suspended_machine_discards_its_snapshot(platform: Platform, prefix: str) -> None:
    suspended(platform)
    platform.ok("POST", f"{prefix}/m1/stop")
    assert state(platform) == "stopping"
    platform.advance(3)
    assert saved(platform) == ("stopped", False)
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "stopped"
    platform.advance(2)
    assert booted_at(platform) == "12:00:15Z"


def test_a_start_cancels_a_suspend_under_way_and_nothing_boots(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(5)
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "suspending"
    platform.advance(10)
    assert (state(platform), booted_at(platform)) == ("started", "12:00:00Z")


def test_a_snapshot_lost_while_it_is_saved_makes_the_next_start_cold(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    platform.by_hand("lose_snapshot")
    platform.advance(10)
    assert saved(platform) == ("suspended", False)


def test_a_start_may_answer_the_previous_state_alone(platform: Platform) -> None:
    suspended(platform)
    platform.switch(start_reply="previous_state")
    assert platform.ok("POST", f"{M1}/start") == {"previous_state": "suspended"}


def test_a_restart_boots_by_way_of_other_states_and_may_be_repeated_as_switched(platform: Platform) -> None:
    platform.machine()
    seen = []
    for _ in range(3):
        assert platform.ok("POST", f"{M1}/restart") == {"ok": True}
        seen.append(state(platform))
        platform.advance(2)
    assert seen == ["restarting", "restarting", "starting"]
    assert (state(platform), booted_at(platform)) == ("started", "12:00:05Z")
    platform.switch(restart_repeated=412)
    platform.ok("POST", f"{M1}/restart")
    assert platform.call("POST", f"{M1}/restart").status == 412


def test_a_stop_takes_a_signal_and_a_timeout_and_may_be_repeated(platform: Platform) -> None:
    platform.machine()
    assert platform.ok("POST", f"{M1}/stop", {"signal": "SIGINT", "timeout": 5}) == {"ok": True}
    assert platform.ok("POST", f"{M1}/stop") == {"ok": True}
    assert platform.log()[-1]["effect"] is False
    assert platform.ok("POST", f"{M1}/stop", {"timeout": "5s"}) == {"ok": True}
    bodies: list[dict[str, Any]] = [{"signal": 2}, {"timeout": []}, {"timeout": -1}]
    assert {platform.call("POST", f"{M1}/stop", body).status for body in bodies} == {422}


@pytest.mark.parametrize(("verb", "way"), [("deploy", "updating"), ("migrate", "restarting")])
def test_a_deploy_or_a_migration_boots_a_machine_that_runs(platform: Platform, verb: str, way: str) -> None:
    before = platform.machine()["instance_id"]
    answer = platform.by_hand(verb)
    assert answer["state"] == way
    assert (answer["instance_id"] != before) is (verb == "deploy")
    platform.advance(7)
    assert state(platform) == "started"
    assert booted_at(platform) > "12:00:00Z"


def test_a_migrated_machine_is_named_so_at_its_next_start_alone(platform: Platform) -> None:
    suspended(platform)
    platform.by_hand("migrate")
    assert platform.ok("POST", f"{M1}/start")["migrated"]
    platform.advance(2)
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(10)
    assert not platform.ok("POST", f"{M1}/start")["migrated"]


def test_there_is_no_other_control_verb_and_no_other_machine(platform: Platform) -> None:
    platform.machine()
    calls = {"m1/explode": 404, "m2/stop": 404, "m1/lose_snapshot": 412}
    assert {path: platform.call("POST", f"/_sandbox/machines/{path}").status for path in calls} == calls


@pytest.mark.parametrize("operation", ["POST suspend", "POST start", "POST stop", "POST restart", "GET wait"])
def test_every_operation_wants_the_token_and_misses_what_is_not_there(
    platform: Platform, operation: str
) -> None:
    platform.machine()
    method, verb = operation.split()
    for machine in (f"{MACHINES}/none", "/v1/apps/nowhere/machines/m1"):
        assert platform.call(method, f"{machine}/{verb}").status == 404
    assert platform.call(method, f"{M1}/{verb}", headers={}).status == 401


def test_running_is_another_word_for_started(platform: Platform) -> None:
    platform.switch(started_word="running")
    platform.machine(state="started")
    assert state(platform) == "running"
    assert platform.ok("GET", f"{M1}/wait?state=started") == {"ok": True, "state": "running"}
    platform.ok("POST", f"{M1}/suspend")
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "suspending"


def test_in_process_a_wait_is_answered_at_once(platform: Platform) -> None:
    platform.machine()
    platform.ok("POST", f"{M1}/suspend")
    early = platform.call("GET", f"{M1}/wait?state=suspended&timeout=30")
    assert (early.status, early.again_s) == (408, 0)
    assert early.json() == {
        "error": "deadline_exceeded: machine failed to reach desired state, suspended, currently suspending",
        "status": "deadline_exceeded",
    }
    platform.advance(10)
    assert platform.ok("GET", f"{M1}/wait?state=suspended") == {"ok": True, "state": "suspended"}


@pytest.mark.parametrize(
    ("query", "present"), [("", "started"), ("?state=running", "started"), ("?state=stopped", "stopped")]
)
def test_a_wait_asks_for_started_unless_it_names_a_state(
    platform: Platform, query: str, present: str
) -> None:
    platform.machine(state=present)
    assert platform.ok("GET", f"{M1}/wait{query}")["ok"] is True


@pytest.mark.parametrize(
    "query",
    ["state=asleep", "timeout=0", "timeout=61", "timeout=1.5", "timeout=x", "timeout=%C2%B2", "timeout="],
)
def test_a_wait_that_cannot_be_is_refused_at_once(platform: Platform, query: str) -> None:
    platform.machine()
    refused = platform.call("GET", f"{M1}/wait?{query}")
    assert (refused.status, refused.json()["status"], refused.again_s) == (422, "invalid_argument", 0)
