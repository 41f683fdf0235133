"""Suspend, resume, stop, restart, wait. Source: platform API, 3.3, 4.4, 8; platform notes, "Machines"."""

from typing import Any

import pytest

from tests.sandbox.platform import Platform

MACHINES = "/v1/apps/shop/machines"
M1 = f"{MACHINES}/m1"


def register(platform: Platform, **body: Any) -> None:
    platform.ok("POST", "/_sandbox/machines", {"app": "shop", "id": "m1", **body})


def state(platform: Platform) -> str:
    word: str = platform.ok("GET", M1)["state"]
    return word


def shown(platform: Platform) -> dict[str, Any]:
    (machine,) = platform.world()["machines"]
    return machine


def suspended(platform: Platform) -> None:
    register(platform)
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(10)
    assert state(platform) == "suspended"


def test_a_suspend_is_accepted_and_done_later(platform: Platform) -> None:
    register(platform)
    assert platform.ok("POST", f"{M1}/suspend") == {"ok": True}
    assert (state(platform), shown(platform)["snapshot"]) == ("suspending", False)
    platform.advance(9.9)
    assert state(platform) == "suspending"
    platform.advance(0.1)
    assert (state(platform), shown(platform)["snapshot"]) == ("suspended", True)


def test_how_long_suspending_takes_is_a_switch(platform: Platform) -> None:
    platform.switch(suspending_s=90)
    register(platform)
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(89)
    assert state(platform) == "suspending"
    platform.advance(1)
    assert state(platform) == "suspended"


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
def test_what_just_keeps_the_rules_is_suspended(platform: Platform, body: dict[str, Any]) -> None:
    register(platform, **body)
    assert platform.call("POST", f"{M1}/suspend").status == 200


BROKEN_RULES = [
    ({"memory_mb": 2049}, "memory of 2049 MB is above 2048 MB"),
    ({"swap_size_mb": 1}, "has swap"),
    ({"schedule": "daily"}, "has a schedule"),
    ({"updated_at": "2024-06-20T19:59:59Z"}, "was last updated before 2024-06-20 20:00 UTC"),
]


@pytest.mark.parametrize(("body", "rule"), BROKEN_RULES)
def test_a_machine_that_breaks_a_rule_is_not_suspended(
    platform: Platform, body: dict[str, Any], rule: str
) -> None:
    register(platform, **body)
    refused = platform.call("POST", f"{M1}/suspend")
    assert (refused.status, refused.json()["status"]) == (412, "failed_precondition")
    assert refused.json()["error"].startswith("failed_precondition: ")
    assert rule in refused.json()["error"]
    assert state(platform) == "started"
    platform.switch(suspend_refusal="plain")
    plain = platform.call("POST", f"{M1}/suspend")
    assert plain.status == 412
    assert rule not in plain.json()["error"]
    assert [entry["effect"] for entry in platform.log()] == [False] * 3


def test_a_deploy_makes_an_old_machine_one_that_can_be_suspended(platform: Platform) -> None:
    register(platform, updated_at="2020-01-01T00:00:00Z")
    platform.ok("POST", "/_sandbox/machines/m1/deploy")
    platform.advance(7)
    assert platform.call("POST", f"{M1}/suspend").status == 200


@pytest.mark.parametrize("other", ["created", "stopped", "stopping", "starting", "failed", "destroyed"])
def test_only_a_machine_that_runs_is_suspended(platform: Platform, other: str) -> None:
    register(platform, state=other)
    refused = platform.call("POST", f"{M1}/suspend")
    assert refused.status == 412
    assert f"current state: '{other}'" in refused.json()["error"]


def test_a_repeated_suspend_is_accepted_or_refused_as_switched(platform: Platform) -> None:
    suspended(platform)
    assert platform.ok("POST", f"{M1}/suspend") == {"ok": True}
    assert platform.log()[-1]["effect"] is False
    platform.switch(suspend_repeated=412)
    assert platform.call("POST", f"{M1}/suspend").status == 412
    assert state(platform) == "suspended"


def test_a_suspended_machine_resumes_without_a_boot(platform: Platform) -> None:
    register(platform)
    booted_at = shown(platform)["booted_at"]
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(10)
    answer = platform.ok("POST", f"{M1}/start")
    assert answer == {"previous_state": "suspended", "migrated": False, "new_host": ""}
    assert state(platform) == "starting"
    platform.advance(2)
    assert state(platform) == "started"
    assert shown(platform)["booted_at"] == booted_at == "2026-03-01T12:00:00Z"


@pytest.mark.parametrize("verb", ["deploy", "migrate", "lose_snapshot"])
def test_a_discarded_snapshot_makes_the_next_start_cold(platform: Platform, verb: str) -> None:
    suspended(platform)
    platform.ok("POST", f"/_sandbox/machines/m1/{verb}")
    assert (state(platform), shown(platform)["snapshot"]) == ("suspended", False)
    answer = platform.ok("POST", f"{M1}/start")
    assert (answer["previous_state"], answer["migrated"]) == ("suspended", verb == "migrate")
    assert bool(answer["new_host"]) is (verb == "migrate")
    platform.advance(2)
    assert state(platform) == "started"
    assert shown(platform)["booted_at"] == "2026-03-01T12:00:12Z"


@pytest.mark.parametrize("prefix", [MACHINES, "/_sandbox/machines"])
def test_stopping_a_suspended_machine_discards_its_snapshot(platform: Platform, prefix: str) -> None:
    suspended(platform)
    platform.ok("POST", f"{prefix}/m1/stop")
    assert state(platform) == "stopping"
    platform.advance(3)
    assert (state(platform), shown(platform)["snapshot"]) == ("stopped", False)
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "stopped"
    platform.advance(2)
    assert shown(platform)["booted_at"] == "2026-03-01T12:00:15Z"


def test_a_start_cancels_a_suspend_under_way_and_nothing_boots(platform: Platform) -> None:
    register(platform)
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(5)
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "suspending"
    platform.advance(10)
    assert (state(platform), shown(platform)["booted_at"]) == ("started", "2026-03-01T12:00:00Z")


def test_a_snapshot_lost_while_it_is_saved_makes_the_next_start_cold(platform: Platform) -> None:
    register(platform)
    platform.ok("POST", f"{M1}/suspend")
    platform.ok("POST", "/_sandbox/machines/m1/lose_snapshot")
    platform.advance(10)
    assert (state(platform), shown(platform)["snapshot"]) == ("suspended", False)


def test_a_start_may_answer_the_previous_state_alone(platform: Platform) -> None:
    suspended(platform)
    platform.switch(start_reply="previous_state")
    assert platform.ok("POST", f"{M1}/start") == {"previous_state": "suspended"}


@pytest.mark.parametrize("present", ["started", "running", "starting"])
def test_a_repeated_start_is_accepted_or_refused_as_switched(platform: Platform, present: str) -> None:
    register(platform, state=present)
    platform.ok("POST", f"{M1}/start")
    assert platform.log()[-1]["effect"] is False
    platform.switch(start_repeated=412)
    assert platform.call("POST", f"{M1}/start").status == 412


@pytest.mark.parametrize("other", ["stopping", "restarting", "destroyed"])
def test_a_machine_on_its_way_elsewhere_is_not_started(platform: Platform, other: str) -> None:
    register(platform, state=other)
    refused = platform.call("POST", f"{M1}/start")
    assert (refused.status, refused.json()["status"]) == (412, "failed_precondition")


def test_a_restart_boots_by_way_of_other_states(platform: Platform) -> None:
    register(platform)
    assert platform.ok("POST", f"{M1}/restart") == {"ok": True}
    seen = [state(platform)]
    for _ in range(2):
        platform.advance(3)
        seen.append(state(platform))
    assert seen == ["restarting", "starting", "started"]
    assert shown(platform)["booted_at"] == "2026-03-01T12:00:05Z"


def test_a_repeated_restart_is_accepted_or_refused_as_switched(platform: Platform) -> None:
    register(platform)
    for _ in range(3):
        assert platform.ok("POST", f"{M1}/restart") == {"ok": True}
        platform.advance(2)
    assert (state(platform), shown(platform)["booted_at"]) == ("started", "2026-03-01T12:00:05Z")
    platform.switch(restart_repeated=412)
    platform.ok("POST", f"{M1}/restart")
    assert platform.call("POST", f"{M1}/restart").status == 412


def test_a_machine_that_resumes_is_not_taken_for_one_that_restarts(platform: Platform) -> None:
    suspended(platform)
    platform.ok("POST", f"{M1}/start")
    assert platform.call("POST", f"{M1}/restart").status == 412


@pytest.mark.parametrize("other", ["suspended", "stopped", "suspending"])
def test_only_a_machine_that_runs_is_restarted(platform: Platform, other: str) -> None:
    register(platform, state=other)
    assert platform.call("POST", f"{M1}/restart").status == 412


def test_a_stop_takes_a_signal_and_a_timeout_and_may_be_repeated(platform: Platform) -> None:
    register(platform)
    assert platform.ok("POST", f"{M1}/stop", {"signal": "SIGINT", "timeout": 5}) == {"ok": True}
    assert platform.ok("POST", f"{M1}/stop") == {"ok": True}
    assert platform.log()[-1]["effect"] is False
    assert platform.ok("POST", f"{M1}/stop", {"timeout": "5s"}) == {"ok": True}
    bodies: list[dict[str, Any]] = [{"signal": 2}, {"timeout": []}, {"timeout": -1}]
    for body in bodies:
        assert platform.call("POST", f"{M1}/stop", body).status == 422


def test_a_machine_that_is_gone_is_not_stopped(platform: Platform) -> None:
    register(platform, state="destroyed")
    assert platform.call("POST", f"{M1}/stop").status == 412


@pytest.mark.parametrize(("verb", "way"), [("deploy", "updating"), ("migrate", "restarting")])
def test_a_deploy_or_a_migration_boots_a_machine_that_runs(platform: Platform, verb: str, way: str) -> None:
    register(platform)
    before = platform.ok("GET", M1)["instance_id"]
    answer = platform.ok("POST", f"/_sandbox/machines/m1/{verb}")
    assert answer["state"] == way
    assert (answer["instance_id"] != before) is (verb == "deploy")
    platform.advance(7)
    assert state(platform) == "started"
    assert shown(platform)["booted_at"] > "2026-03-01T12:00:00Z"


def test_a_migrated_machine_is_named_so_at_its_next_start_alone(platform: Platform) -> None:
    suspended(platform)
    platform.ok("POST", "/_sandbox/machines/m1/migrate")
    assert platform.ok("POST", f"{M1}/start")["migrated"]
    platform.advance(2)
    platform.ok("POST", f"{M1}/suspend")
    platform.advance(10)
    assert not platform.ok("POST", f"{M1}/start")["migrated"]


def test_there_is_no_other_control_verb_and_no_other_machine(platform: Platform) -> None:
    register(platform)
    assert platform.call("POST", "/_sandbox/machines/m1/explode").status == 404
    assert platform.call("POST", "/_sandbox/machines/m2/stop").status == 404
    assert platform.call("POST", "/_sandbox/machines/m1/lose_snapshot").status == 412


@pytest.mark.parametrize("target", ["/v1/apps/shop/machines/none", "/v1/apps/nowhere/machines/m1"])
@pytest.mark.parametrize("method", ["POST suspend", "POST start", "POST stop", "POST restart", "GET wait"])
def test_every_operation_misses_what_is_not_there(platform: Platform, target: str, method: str) -> None:
    register(platform)
    verb, operation = method.split()
    assert platform.call(verb, f"{target}/{operation}").status == 404


def test_every_operation_wants_the_token(platform: Platform) -> None:
    register(platform)
    for verb, operation in (("POST", "suspend"), ("POST", "start"), ("GET", "wait")):
        assert platform.call(verb, f"{M1}/{operation}", headers={}).status == 401


def test_running_is_another_word_for_started(platform: Platform) -> None:
    platform.switch(started_word="running")
    register(platform, state="started")
    assert state(platform) == "running"
    assert platform.ok("GET", f"{M1}/wait?state=started") == {"ok": True, "state": "running"}
    platform.ok("POST", f"{M1}/suspend")
    assert platform.ok("POST", f"{M1}/start")["previous_state"] == "suspending"


def test_in_process_a_wait_is_answered_at_once(platform: Platform) -> None:
    register(platform)
    platform.ok("POST", f"{M1}/suspend")
    early = platform.call("GET", f"{M1}/wait?state=suspended&timeout=30")
    assert (early.status, early.again_s) == (408, 0)
    assert early.json() == {
        "error": "deadline_exceeded: machine failed to reach desired state, suspended, currently suspending",
        "status": "deadline_exceeded",
    }
    platform.advance(10)
    assert platform.ok("GET", f"{M1}/wait?state=suspended") == {"ok": True, "state": "suspended"}


@pytest.mark.parametrize(("wanted", "present"), [("", "started"), ("running", "started"), ("stopped",) * 2])
def test_a_wait_asks_for_started_unless_told_otherwise(platform: Platform, wanted: str, present: str) -> None:
    register(platform, state=present)
    query = f"?state={wanted}" if wanted else ""
    assert platform.ok("GET", f"{M1}/wait{query}")["ok"] is True


@pytest.mark.parametrize(
    "query",
    ["state=asleep", "timeout=0", "timeout=61", "timeout=1.5", "timeout=x", "timeout=%C2%B2", "timeout="],
)
def test_a_wait_that_cannot_be_is_refused_at_once(platform: Platform, query: str) -> None:
    register(platform)
    refused = platform.call("GET", f"{M1}/wait?{query}")
    assert (refused.status, refused.json()["status"], refused.again_s) == (422, "invalid_argument", 0)
