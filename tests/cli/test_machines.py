"""Machines by real processes: suspended, started, refused, waited for. Source: issue 4."""

from pathlib import Path
from typing import Any

from tests.cli.harness import Project, Sandbox, environment, only

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
