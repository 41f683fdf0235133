"""JSON: one document on stdout whatever happens, with exactly the keys and words of DESIGN, section 3."""

from typing import Any

import pytest

from tests.cli.harness import Project, Sandbox, cluster, only, secret, volume

ACTIONS = {
    "create", "restore", "adopt", "update", "extend", "snapshot", "set", "suspend", "stop",
    "start", "restart", "delete", "retain", "forget", "noop", "refused",
}  # fmt: skip
PLAN = {"format_version", "context", "changes", "steps", "owed", "diagnostics", "summary"}
CHANGE = {"address", "action", "fields", "impact", "reason"}
FIELD = {"path", "before", "after", "effect"}
STEP = {"id", "address", "method", "path", "body", "after"}
DIAGNOSTIC = {"code", "severity", "message", "file", "line", "column"}
OUTCOMES = {"done", "pending", "unknown", "failed", "skipped"}


def assert_diagnostics(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert set(item) - {"help"} == DIAGNOSTIC
        assert item["severity"] in ("error", "warning", "info")


def assert_plan(document: dict[str, Any], keys: set[str]) -> None:
    assert set(document) == keys
    assert document["format_version"] == "1"
    assert set(document["summary"]) == ACTIONS
    for change in document["changes"]:
        assert set(change) - {"id"} == CHANGE
        assert change["action"] in ACTIONS - {"noop"}
        assert change["impact"] in ("online", "restart", "downtime", "repoint", "data_loss")
        for field in change["fields"]:
            assert set(field) == FIELD
            assert field["effect"] in ("in_place", "grow", "restart", "write_only", "refused")
    for step in document.get("steps", ()):
        assert set(step) - {"wait", "owes"} == STEP
    for action, count in document["summary"].items():
        if action != "noop":  # a change may do more than its weightiest action
            assert count >= [change["action"] for change in document["changes"]].count(action)
    assert_diagnostics(document["diagnostics"])


def test_plan_drift_and_apply_have_the_documented_shape(project: Project, sandbox: Sandbox, app: str) -> None:
    env = {"SHOP_PASSWORD": "secret-value"}
    project.write(
        volume(app, spec="region: ams, size_gb: 10, snapshot_retention: 7")
        + volume(app, "copy", spec="region: ams, size_gb: 10, from: {volume: data}")
        + cluster(f"orders-{app}")
        + secret(app, "PASSWORD", "env: SHOP_PASSWORD")
        + secret(app, "HOST", f'template: "${{PostgresCluster/orders-{app}:endpoints.primary.pooler.host}}"')
    )
    plan = project.json("plan", env=env).json
    assert_plan(plan, PLAN | {"digest"})
    steps = {step["id"]: step for step in plan["steps"]}
    copy = steps[f"Volume/{app}/copy#create"]
    assert copy["after"] == [f"Volume/{app}/data#create"]
    assert copy["body"]["source_volume_id"] == f"${{Volume/{app}/data:id}}"
    assert steps[f"Secret/{app}/HOST#set"]["after"] == [f"PostgresCluster/orders-{app}#create"]
    assert steps[f"Secret/{app}/HOST#set"]["body"] == {"value": "(sensitive)"}
    assert steps[f"PostgresCluster/orders-{app}#create"]["wait"]["until"] == ["ready"]

    project.approve(f"PostgresCluster/orders-{app}")
    applied = project.apply(env=env).json
    assert_plan(applied, PLAN | {"results", "head"})
    assert {result["step"] for result in applied["results"]} == set(steps)
    for result in applied["results"]:
        assert set(result) - {"id", "error"} == {"address", "step", "outcome"}
        assert result["outcome"] == "done"
    made = next(result for result in applied["results"] if result["address"] == f"Volume/{app}/data")
    assert made["id"] in {item["id"] for item in sandbox.volumes(app)}

    sandbox.edit_volume(made["id"], snapshot_retention=30)
    drift = project.json("drift", code=2, env=env).json
    assert_plan(drift, PLAN - {"steps"} | {"unmanaged"})


def test_the_summary_counts_each_thing_that_is_done_to_one_volume(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    sandbox.make_volume(app, "data", size_gb=10, snapshot_retention=5)
    project.write(volume(app, spec="region: ams, size_gb: 20, snapshot_retention: 14"))
    plan = project.json("plan").json
    assert [change["action"] for change in plan["changes"]] == ["adopt"]
    counts = {action: count for action, count in plan["summary"].items() if count}
    assert counts == {"adopt": 1, "extend": 1, "update": 1}
    said = "Plan: 1 to adopt, 1 to extend, 1 to update."
    assert said in project.run("plan").out
    assert f"**{said}**" in project.run("plan", "--output", "markdown").out
    assert "\nApplied: 3 done.\n" in project.run("apply", "--auto-approve").out


def test_an_extend_says_what_it_may_owe_and_what_it_waits_for(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    applied.write(volume(app, spec="region: ams, size_gb: 20"))
    step = only(applied.json("plan").json["steps"])
    assert step["owes"] == {"work": "restart", "when": "needs_restart"}
    assert step["wait"]["field"] == "size_gb"
    assert step["wait"]["until"] == {"at_least": 20}


def test_validate_prints_version_and_diagnostics(project: Project, app: str) -> None:
    project.write(volume(app))
    assert project.json("validate").json == {"format_version": "1", "diagnostics": []}
    project.write(volume(app, spec='region: ams, size_gb: "10", snapshot_retention: 61'))
    refused = project.json("validate", code=1).json
    assert set(refused) == {"format_version", "diagnostics"}
    assert_diagnostics(refused["diagnostics"])
    assert {(item["file"], item["line"]) for item in refused["diagnostics"]} == {("manifests/main.yaml", 5)}
    assert len(refused["diagnostics"]) == 2


@pytest.mark.parametrize("verb", ["plan", "apply", "drift"])
def test_a_failure_is_one_document_too(project: Project, app: str, verb: str) -> None:
    project.write("apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data}\nspec: {sice: 1}\n")
    more = ["--auto-approve"] if verb == "apply" else []
    failed = project.json(verb, *more, code=1)
    assert set(failed.json) == {"format_version", "diagnostics"}
    assert_diagnostics(failed.json["diagnostics"])
    assert "error" in failed.err


def test_a_failure_without_a_place_is_a_diagnostic_of_the_same_shape(project: Project, app: str) -> None:
    project.write(volume(app))
    failed = project.json("plan", code=1, env={"RECONCILE_TOKEN": ""})
    assert_diagnostics(failed.json["diagnostics"])
    assert "RECONCILE_TOKEN" in only(failed.json["diagnostics"])["message"]


def test_results_use_only_the_documented_words_when_things_fail(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app) + volume(app, "copy", spec="region: ams, from: {volume: data}"))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "status", status=422, body={"error": "no room"})
    failed = project.apply(code=1)
    assert failed.outcomes() == {
        f"Volume/{app}/data#create": "failed",
        f"Volume/{app}/copy#create": "skipped",
    }
    errors = {result["step"]: result["error"] for result in failed.json["results"]}
    assert "no room" in errors[f"Volume/{app}/data#create"]
    assert f"Volume/{app}/data#create" in errors[f"Volume/{app}/copy#create"]
    assert set(failed.outcomes().values()) <= OUTCOMES
