"""Machines by real processes: suspended, started, refused, waited for. Source: issue 4."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import MUTATIONS, Project, Sandbox, environment, only, volume

SOON = "lifecycle: {timeout_s: 1}\n"


def machine(app: str, id: str, power: str, rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Machine\nmetadata: {{name: worker, app: {app}}}\n"
        f"spec:\n  id: {id}\n  power: {power}\n{rest}"
    )


def seen(sandbox: Sandbox, id: str) -> dict[str, Any]:
    found: dict[str, Any] = only(
        [each for each in sandbox.call("GET", "/_sandbox/world")["machines"] if each["id"] == id]
    )
    return found


@pytest.fixture
def blind(extended_project: Project) -> Project:
    """A project whose platform shows no machine, as far as it knows."""
    extended_project.env["RECONCILE_CAPABILITIES"] = ""
    return extended_project


def test_a_machine_is_suspended_and_a_second_apply_sends_nothing(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    id = sandbox.machine(app)
    project.write(machine(app, id, "suspended"))
    plan = project.run("plan", "--detailed-exitcode", code=2)
    assert f"~ Machine/{app}/worker: suspend, impact: downtime" in plan.out
    assert 'power: "unknown" -> "suspended"' in plan.out
    assert f"POST /v1/apps/{app}/machines/{id}/suspend" in plan.out
    applied = project.apply()
    assert applied.outcomes() == {f"Machine/{app}/worker#suspend": "done"}
    assert only(applied.json["results"])["id"] == id
    assert seen(sandbox, id)["state"] == "suspended"
    with sandbox.recording() as requests:
        project.apply()
        assert "No changes" in project.run("plan").out
    assert requests == []
    shown = project.run("show", f"Machine/{app}/worker").out
    assert "live state unknown; enable `machine.get`" in shown
    record = project.json("show", f"Machine/{app}/worker").json["record"]
    when = record["applied"]["power_at"]
    assert f'  last known, from our last call (in the apply of {when}):\n    power: "suspended"\n' in shown


def test_a_start_tells_in_text_and_json_that_connections_may_be_stale(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    id = sandbox.machine(app)
    project.write(machine(app, id, "suspended"))
    project.apply()
    project.write(machine(app, id, "started"))
    assert "connections" in only(project.apply().json["results"])["note"]
    project.write(machine(app, id, "suspended"))
    project.apply()
    project.write(machine(app, id, "running"))
    told = project.run("apply", "--auto-approve").out
    assert f"done: Machine/{app}/worker#start" in told
    assert "note: its earlier connections may have been closed" in told


def test_a_suspend_that_takes_long_is_pending_and_the_next_run_goes_on_waiting(
    blind: Project, extended: Sandbox
) -> None:
    app = extended.app("slow")
    id = extended.machine(app)
    extended.switch(suspending_s=50_000)
    blind.write(machine(app, id, "suspended", SOON))
    pending = blind.apply(code=4)
    assert "currently suspending" in only(pending.json["results"])["error"]
    assert only(blind.json("plan", "--detailed-exitcode", code=4).json["steps"])["method"] == "GET"
    extended.call("POST", f"/_sandbox/machines/{id}/lose_snapshot")
    with extended.recording() as requests:
        blind.apply(code=4)
    assert {method for method, _ in requests} == {"GET"}
    extended.advance(50_000)
    assert blind.apply().outcomes() == {f"Machine/{app}/worker#suspend": "done"}  # after one wait in vain
    assert blind.apply().json["steps"] == []


def test_a_run_that_was_killed_while_it_waited_is_taken_up_by_the_next_one(
    blind: Project, extended: Sandbox
) -> None:
    app = extended.app("killed")
    id = extended.machine(app)
    extended.switch(suspending_s=50_000)
    blind.write(machine(app, id, "suspended"))
    with blind.started_apply() as running:
        running.until(lambda: extended.seen("GET", f"{id}/wait"))
        running.kill()
    extended.advance(50_000)
    assert blind.apply().outcomes() == {f"Machine/{app}/worker#wait": "done"}
    assert extended.mutations_of(app) == [("POST", f"machines/{id}/suspend")]


def test_a_broken_rule_is_named_at_its_place_before_any_call(
    extended_project: Project, extended: Sandbox
) -> None:
    app = extended.app("large")
    extended.call("POST", "/_sandbox/machines", {"app": app, "id": "m1", "memory_mb": 4096})
    extended_project.write(machine(app, "m1", "suspended"))
    with extended.recording() as requests:
        refused = extended_project.run("apply", "--auto-approve", code=1)
    assert {method for method, _ in requests} == {"GET"}
    assert "error[machine-power]: machine `worker` (m1) cannot be suspended" in refused.err
    assert "4096 MB of memory (at most 2048)" in refused.err
    assert "--> manifests/main.yaml:7:10" in refused.err
    assert "= help: give it less memory; or write `power: started`" in refused.err


def test_a_refusal_is_told_with_the_platform_s_words_and_the_rules(blind: Project, extended: Sandbox) -> None:
    app = extended.app("scheduled")
    extended.call("POST", "/_sandbox/machines", {"app": app, "id": "m1", "schedule": "daily"})
    blind.write(machine(app, "m1", "suspended", "lifecycle: {timeout_s: 3}\n"))
    failed = blind.run("apply", "--auto-approve", code=1)
    assert "machine has a schedule, so it cannot be suspended" in failed.out
    assert "note: the platform suspends only running machines with at most 2 GB of memory" in failed.out
    assert extended.mutations_of(app) == [("POST", "machines/m1/suspend")]
    extended.call("POST", "/_sandbox/machines", {"app": app, "id": "m1", "schedule": ""})
    blind.apply()
    assert seen(extended, "m1")["state"] == "suspended"


def test_a_machine_that_somebody_started_is_drift(extended_project: Project, extended: Sandbox) -> None:
    app = extended.app("woken")
    id = extended.machine(app)
    extended_project.write(machine(app, id, "suspended"))
    extended_project.apply()
    assert "No drift" in extended_project.run("drift").out
    extended.call("POST", f"/v1/apps/{app}/machines/{id}/start")
    change = only(extended_project.json("drift", code=2).json["changes"])
    assert (change["action"], only(change["fields"])["after"]) == ("suspend", "started")
    assert '"state": "started"' in extended_project.run("show", f"Machine/{app}/worker", "-o", "json").out
    extended_project.apply()
    assert seen(extended, id)["state"] == "suspended"


def test_an_owed_restart_waits_for_a_machine_that_is_to_stay_suspended(
    extended_project: Project, extended: Sandbox
) -> None:
    app = extended.app("owing")
    auto = "lifecycle: {restart: auto}\n"
    extended_project.write(volume(app, rest=auto))
    extended_project.apply()
    id = extended.machine(app, extended.volume(app)["id"])
    grown = volume(app, spec="region: ams, size_gb: 20", rest=auto)
    extended_project.write(grown + machine(app, id, "suspended"))
    applied = extended_project.run("apply", "--auto-approve")
    assert f"* Volume/{app}/data: restart, because extended from 10 to 20 GB" in applied.out
    with extended.recording() as requests:
        plan = extended_project.run("plan")
    assert "restart-waits" in plan.err
    assert f"a manifest keeps machine {id} suspended" in plan.err
    assert f"* Volume/{app}/data: restart" in plan.out
    assert not [request for request in requests if request[0] in MUTATIONS]
    extended_project.write(grown + machine(app, id, "started"))
    assert extended_project.apply().outcomes() == {
        f"Machine/{app}/worker#start": "done",
        f"Volume/{app}/data#restart": "done",
    }
    assert seen(extended, id)["pending_restart"] == []
    assert extended_project.apply().json["owed"] == []


def test_the_embedded_sandbox_has_the_machines_that_manifests_name_and_keeps_them(tmp_path: Path) -> None:
    project = Project(tmp_path, environment(None))
    project.write(machine("shop", "m1", "suspended"))
    project.env["RECONCILE_CAPABILITIES"] = "machine.get"
    first = project.apply("manifests", "--sandbox")
    assert "machine m1" in first.err
    again = project.apply("manifests", "--sandbox")
    assert "machine m1" not in again.err
    assert (again.json["steps"], again.json["summary"]["noop"]) == ([], 1)


def test_drift_says_what_it_cannot_compare(project: Project, sandbox: Sandbox, app: str) -> None:
    id = sandbox.machine(app)
    project.write(machine(app, id, "suspended"))
    project.apply()
    drift = project.run("drift")
    assert drift.code == 0
    assert "Machine: 1 recorded, not compared (live state unknown; enable `machine.get`" in drift.err
