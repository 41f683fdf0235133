"""Saved plans: what was reviewed is what runs, once, and only while it is still true."""

import dataclasses
import stat
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.cli.main import run
from reconciler.core.model import Resource
from reconciler.manifests.digest import digest_resources
from reconciler.pipeline.store import store_of
from reconciler.planning.saved import dump_plan, load_plan
from reconciler.secrets.fingerprint import plan_key
from reconciler.state.spooling import Spooling
from tests.cli.harness import MUTATIONS, Project, Sandbox, cluster, secret, volume


@pytest.fixture(autouse=True)
def state(project: Project) -> None:
    """There is one: its key signs plans."""
    project.run("state", "init")


def test_a_saved_plan_is_private_and_runs_as_it_stands(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    saved = project.root / "saved.plan"
    saved.write_text("old and readable by all")
    saved.chmod(0o644)
    project.run("plan", "--out", "saved.plan")
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    applied = project.json("apply", "--plan", "saved.plan")
    assert applied.outcomes() == {f"Volume/{app}/data#create": "done"}
    assert sandbox.volume(app)["size_gb"] == 10


def test_the_state_is_opened_once_to_verify_the_plan_and_to_run_it(
    project: Project, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    opened = []

    def counted(*what: Any, **how: Any) -> Spooling:
        opened.append(what)
        return store_of(*what, **how)

    monkeypatch.setattr("reconciler.pipeline.open.store_of", counted)
    monkeypatch.chdir(project.root)
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    assert run(["apply", "--plan", "saved.plan"]) == 0
    assert len(opened) == 1


def test_the_manifests_digest_is_taken_once_and_not_for_a_plan_that_is_only_looked_at(
    project: Project, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(volume(app))
    taken = []

    def counted(resources: Sequence[Resource]) -> str:
        taken.append(len(resources))
        return digest_resources(resources)

    monkeypatch.setattr("reconciler.pipeline.desired.digest_resources", counted)
    monkeypatch.chdir(project.root)
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    assert run(["plan"]) == 0
    assert taken == []
    assert run(["plan", "-o", "json", "--out", "saved.plan"]) == 0
    assert taken == [1]


def test_a_plan_runs_once(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    project.run("apply", "--plan", "saved.plan")
    with sandbox.recording() as requests:
        again = project.run("apply", "--plan", "saved.plan", code=1)
    assert "a plan runs once" in again.err
    assert again.out == ""  # refused before the plan is shown
    assert not [request for request in requests if request[0] in MUTATIONS]
    assert len(sandbox.volumes(app)) == 1


def test_a_plan_is_refused_naming_the_object_that_moved(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app) + volume(app, "logs"))
    project.apply()
    project.write(
        volume(app, spec="region: ams, size_gb: 20") + volume(app, "logs", "region: ams, size_gb: 20")
    )
    project.run("plan", "--out", "saved.plan")
    logs = next(item for item in sandbox.volumes(app) if item["name"] == "logs")
    sandbox.edit_volume(logs["id"], size_gb=15)
    with sandbox.recording() as requests:
        refused = project.json("apply", "--plan", "saved.plan", code=1)
    assert not [request for request in requests if request[0] in MUTATIONS]
    (problem,) = refused.json["diagnostics"]
    assert f"Volume/{app}/logs" in problem["message"]


def test_a_planned_create_is_refused_when_such_an_object_appeared(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    sandbox.make_volume(app, "data")
    refused = project.run("apply", "--plan", "saved.plan", code=1)
    assert f"Volume/{app}/data" in refused.err
    assert len(sandbox.volumes(app)) == 1


def test_a_plan_is_refused_when_somebody_else_applied_meanwhile(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    project.apply()
    sandbox_volumes = sandbox.volumes(app)
    refused = project.run("apply", "--plan", "saved.plan", code=1)
    assert f"Volume/{app}/data" in refused.err
    assert sandbox.volumes(app) == sandbox_volumes


def test_a_saved_create_is_refused_while_another_ones_outcome_is_unknown(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(cluster(f"db-{app}"))
    project.run("plan", "--out", "saved.plan")
    sandbox.fault("POST", "/v1/postgres", "drop_after")
    project.approve(f"PostgresCluster/db-{app}")
    project.apply(code=3)
    refused = project.run("apply", "--plan", "saved.plan", code=3)
    assert f"reconcile resolve PostgresCluster/db-{app} --adopt ID" in refused.err
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_changes_elsewhere_do_not_matter(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.run("plan", "--out", "saved.plan")
    sandbox.make_volume(app, "somebody-elses")
    mine = next(item for item in sandbox.volumes(app) if item["name"] == "data")
    sandbox.edit_volume(mine["id"], snapshot_retention=40)
    applied = project.json("apply", "--plan", "saved.plan")
    assert applied.outcomes() == {f"Volume/{app}/data#extend": "done"}


def test_a_saved_plan_runs_from_another_directory_of_the_project(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(secret(app, "PASSWORD", "file: password.txt"))
    project.write("the-password\n", "manifests/password.txt")
    project.run("plan", "--out", "saved.plan")
    elsewhere = project.root / "else" / "where"
    elsewhere.mkdir(parents=True)
    project.run("apply", "--plan", "../../saved.plan", cwd=elsewhere)
    assert project.json("plan").json["changes"] == []
    assert "the-password" not in (project.root / "saved.plan").read_text()


def test_a_plan_of_one_state_does_not_run_on_another(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app) + volume(app, "more"))
    project.run("plan", "--out", "saved.plan")
    project.run("state", "init", "--state", "sqlite:other.db")
    refused = project.run("apply", "--plan", "saved.plan", "--state", "sqlite:other.db", code=1)
    assert "another state" in refused.err
    assert refused.out == ""
    assert len(sandbox.volumes(app)) == 1


def test_a_plan_with_errors_is_not_saved(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.apply()
    project.write(volume(app))
    refused = project.json("plan", "--out", "saved.plan", code=1)
    assert "a plan with errors is not saved" in refused.err
    assert refused.json["summary"]["refused"] == 1
    assert not (project.root / "saved.plan").exists()


def test_a_plan_that_cannot_be_written_is_one_failure(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    failed = project.json("plan", "--out", "no/such/folder/saved.plan", code=1)
    assert "cannot write" in failed.json["diagnostics"][0]["message"]


def test_a_saved_delete_needs_its_approval_when_it_runs(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app, rest="lifecycle: {deletion: delete, snapshot_before: []}\n"))
    project.apply()
    project.remove()
    project.run("plan", "--out", "saved.plan")
    refused = project.run("apply", "--plan", "saved.plan", code=1)
    assert f"--approve-delete Volume/{app}/data" in refused.err
    assert sandbox.volume(app)["state"] == "created"
    project.run("apply", "--plan", "saved.plan", "--approve-delete", f"Volume/{app}/data")
    assert sandbox.volume(app)["state"] == "pending_destroy"


def test_a_saved_plan_without_changes_does_nothing(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.run("plan", "--out", "saved.plan")
    with sandbox.recording() as requests:
        project.run("apply", "--plan", "saved.plan")
    assert not [request for request in requests if request[0] in MUTATIONS]


def test_a_damaged_plan_file_is_refused(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write("not a plan", "saved.plan")
    assert "not JSON" in project.run("apply", "--plan", "saved.plan", code=1).err


def test_without_a_state_no_plan_is_saved_and_none_runs(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    refused = project.run("plan", "--out", "other.plan", "--state", "sqlite:none.db", code=1)
    assert "there is no state" in refused.err
    assert "reconcile state init" in refused.err
    assert not (project.root / "other.plan").exists()
    assert not (project.root / "none.db.key").exists()
    assert (
        "there is no state"
        in project.run("apply", "--plan", "saved.plan", "--state", "sqlite:none.db", code=1).err
    )


def test_a_forged_plan_is_refused_before_anything_is_read(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.run("plan", "--out", "saved.plan")
    saved = project.root / "saved.plan"
    saved.write_text(saved.read_text().replace('"PUT"', '"DELETE"').replace("/extend", ""))
    with sandbox.recording() as requests:
        refused = project.run("apply", "--plan", "saved.plan", "--auto-approve", code=1)
    assert "not signed with the key of this state" in refused.err
    assert requests == []
    assert sandbox.volume(app)["state"] == "created"


def test_a_plan_that_was_signed_by_a_forger_sends_no_variable_that_the_manifest_does_not_name(
    project: Project, sandbox: Sandbox, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key proves where a plan was made, no more: whoever has it still sends only what is declared."""
    project.write(secret(app, "PASSWORD", "env: SHOP_PASSWORD"))
    environment = {"SHOP_PASSWORD": "declared", "DEPLOY_KEY": "of the apply job"}
    project.run("plan", "--out", "saved.plan", env=environment)
    saved = project.root / "saved.plan"
    key = plan_key((project.root / ".reconcile/state.db.key").read_bytes())
    plan = load_plan(saved.read_bytes(), key)
    (step,) = plan.steps
    body = {"value": replace(step.call.body["value"], name="DEPLOY_KEY")}  # type: ignore[index]
    forged = replace(step, call=dataclasses.replace(step.call, body=body))
    saved.write_bytes(dump_plan(replace(plan, steps=(forged,)), key))
    with sandbox.recording() as requests:
        refused = project.run("apply", "--plan", "saved.plan", "--auto-approve", code=1, env=environment)
    assert "foreign-call" in refused.err
    assert not [request for request in requests if request[0] in MUTATIONS]


def test_the_key_of_plans_goes_where_the_state_goes(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.apply()
    project.write(volume(app, spec="region: ams, size_gb: 20"))
    project.run("plan", "--out", "saved.plan")
    project.run("state", "backup", "copy.db")
    for file in (project.root / ".reconcile").glob("state.db*"):
        if file.is_file():
            file.unlink()
    project.run("state", "restore", "copy.db", "--auto-approve")
    applied = project.json("apply", "--plan", "saved.plan")
    assert applied.outcomes() == {f"Volume/{app}/data#extend": "done"}
