"""The tour that the README shows, step by step, as a person runs it. Source: issue 2."""

import shutil
from pathlib import Path

import pytest

from tests.cli.harness import MUTATIONS, Project, Sandbox, environment, only, secret, volume

EXAMPLES = Path(__file__).parent.parent.parent / "manifests" / "examples"


def test_the_examples_converge_in_the_embedded_sandbox_and_a_second_apply_sends_nothing(
    tmp_path: Path,
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "manifests" / "examples")
    project = Project(tmp_path, environment(None))
    del project.env["RECONCILE_TOKEN"]
    first = project.run("apply", "manifests/examples", "--sandbox", "--auto-approve")
    assert "5 to create, 2 to set, 1 to suspend" in first.out
    assert "Applied: 8 done." in first.out
    assert "shop" in first.err
    again = project.apply("manifests/examples", "--sandbox")
    assert again.json["steps"] == []
    assert again.json["results"] == []
    assert again.json["summary"]["noop"] == 8


def test_growing_a_volume_is_planned_with_its_impact_and_applied(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    plan = project.run("plan")
    assert f"~ Volume/{app}/data" in plan.out
    assert "size_gb: 10 -> 20  [grow]" in plan.out
    assert "PUT" in plan.out
    applied = project.apply()
    assert applied.outcomes() == {f"Volume/{app}/data#extend": "done"}
    assert sandbox.volume(app)["size_gb"] == 20


def test_a_restart_that_the_answer_asks_for_is_owed_until_a_person_says_it_is_done(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    sandbox.machine(app, sandbox.volume(app)["id"])
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    change = only(project.json("plan").json["changes"])
    assert (change["action"], change["impact"]) == ("extend", "restart")
    applied = project.apply()
    owed = {
        "address": f"Volume/{app}/data",
        "work": "restart",
        "because": "extended from 10 to 20 GB",
        "certainty": "owed",
        "advice": [{"argv": ["reconcile", "resolve", f"Volume/{app}/data", "--restarted"]}],
    }
    assert applied.json["owed"] == [owed]
    later = project.run("plan", "--detailed-exitcode")
    assert "because extended from 10 to 20 GB" in later.out
    assert f"reconcile resolve Volume/{app}/data --restarted" in later.out
    assert project.apply().json["owed"] == [owed]
    project.run("resolve", f"Volume/{app}/data", "--restarted")
    assert project.json("plan").json["owed"] == []


def test_size_and_retention_together_are_two_calls(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    id = sandbox.volume(app)["id"]
    project.write(volume(app, spec="region: ams, size_gb: 20, snapshot_retention: 14"))
    plan = project.json("plan")
    assert plan.actions() == {f"Volume/{app}/data": "extend"}
    with sandbox.recording() as requests:
        project.apply()
    assert [request for request in requests if request[0] in MUTATIONS] == [
        ("PUT", f"/v1/apps/{app}/volumes/{id}"),
        ("PUT", f"/v1/apps/{app}/volumes/{id}/extend"),
    ]
    assert {step["path"]: step["body"] for step in plan.json["steps"]} == {
        f"/v1/apps/{app}/volumes/{id}": {"snapshot_retention": 14},
        f"/v1/apps/{app}/volumes/{id}/extend": {"size_gb": 20},
    }
    assert (sandbox.volume(app)["size_gb"], sandbox.volume(app)["snapshot_retention"]) == (20, 14)


def test_shrinking_is_refused_at_its_place_before_any_call(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(
        f"apiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: data, app: {app}}}\n"
        "spec:\n  region: ams\n  size_gb: 10\n"
    )
    with sandbox.recording() as requests:
        refused = project.run("apply", "--auto-approve", code=1)
    assert {method for method, _ in requests} == {"GET"}
    assert "cannot shrink from 20 GB to 10 GB" in refused.err
    assert "--> manifests/main.yaml:6:12" in refused.err
    assert "  size_gb: 10" in refused.err


def test_one_refused_change_keeps_the_whole_plan_from_running(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 10") + volume(app, "more"))
    refused = project.apply(code=1)
    assert refused.json["summary"]["create"] == 1
    assert refused.json["results"] == []
    assert len(sandbox.volumes(app)) == 1


def test_a_hand_made_change_is_drift_with_field_before_and_after(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 10, snapshot_retention: 7"))
    project.apply()
    assert "No drift" in project.run("drift").out
    sandbox.edit_volume(sandbox.volume(app)["id"], snapshot_retention=30)
    with sandbox.recording() as requests:
        drift = project.json("drift", code=2)
    assert {method for method, _ in requests} == {"GET"}
    (change,) = drift.json["changes"]
    assert change["address"] == f"Volume/{app}/data"
    assert change["fields"] == [
        {"path": "snapshot_retention", "before": 7, "after": 30, "effect": "in_place"}
    ]
    assert "steps" not in drift.json
    told = project.run("drift", code=2).out
    assert "snapshot_retention: 7 -> 30" in told
    assert project.apply().outcomes() == {f"Volume/{app}/data#update": "done"}
    assert sandbox.volume(app)["snapshot_retention"] == 7


def test_a_new_secret_value_is_set_and_shown_nowhere(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    project.apply(env={"SHOP_PASSWORD": "first-value"})
    before = only(sandbox.secrets(app))
    assert project.json("plan", env={"SHOP_PASSWORD": "first-value"}).json["changes"] == []
    plan = project.json("plan", env={"SHOP_PASSWORD": "second-value"})
    assert plan.actions() == {f"Secret/{app}/PASSWORD": "set"}
    assert only(plan.json["steps"])["body"] == {"value": "(sensitive)"}
    assert "-value" not in plan.out + plan.err
    project.apply(env={"SHOP_PASSWORD": "second-value"})
    assert only(sandbox.secrets(app))["fingerprint"] != before["fingerprint"]


def test_a_deleted_manifest_is_retained_not_deleted(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.remove()
    assert "retained" in project.run("plan", "--detailed-exitcode").out
    applied = project.apply()
    assert applied.actions() == {f"Volume/{app}/data": "retain"}
    assert applied.json["results"] == []
    assert sandbox.volume(app)["state"] == "created"
    assert f"Volume/{app}/data" in project.run("state", "list").out


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_converged_project_sends_no_mutation(
    project: Project, sandbox: Sandbox, app: str, verb: str
) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 10, count: 2") + volume(app, "logs"))
    project.apply()
    with sandbox.recording() as requests:
        again = project.json(verb, *(["--auto-approve"] if verb == "apply" else []))
    assert requests == [("GET", f"/v1/apps/{app}/volumes")]
    assert again.json["summary"]["noop"] == 3


def test_show_prints_live_fields_snapshots_and_what_is_owed(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    id = sandbox.volume(app)["id"]
    sandbox.call("POST", f"/v1/apps/{app}/volumes/{id}/snapshots")
    shown = project.json("show", f"Volume/{app}/data").json
    assert shown["live"]["id"] == id
    assert shown["record"]["owed"] == []
    assert len(shown["snapshots"]) == 1
    assert id in project.run("show", f"Volume/{app}/data").out
