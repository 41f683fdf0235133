"""What nothing lists is not made a second time: where the state never knew its kind, a person approves it."""

from typing import Any

import pytest

from tests.cli.harness import MUTATIONS, Project, Ran, Sandbox, cluster, only, secret, volume
from tests.cli.test_terminal import on_a_terminal


@pytest.fixture
def begun(project: Project) -> Project:
    """A project with a state of which nobody said that the project begins with it."""
    for file in (project.root / ".reconcile").iterdir():
        if file.is_dir():
            for each in file.iterdir():
                each.unlink()
            file.rmdir()
        else:
            file.unlink()
    project.run("state", "init")
    return project


def codes(ran: Ran) -> list[str]:
    return [each["code"] for each in ran.json["diagnostics"]]


def made_by_hand(sandbox: Sandbox, name: str) -> str:
    sandbox.call(
        "POST", "/v1/postgres", {"name": name, "org_slug": "personal", "plan": "starter", "region": "ams"}
    )
    return str(only(sandbox.clusters(name))["id"])


def change(ran: Ran, address: str) -> Any:
    return only([each for each in ran.json["changes"] if each["address"] == address])


def test_no_second_cluster_is_made_under_an_empty_state(begun: Project, sandbox: Sandbox, app: str) -> None:
    """The state was lost, and a pipeline made an empty one."""
    name = f"db-{app}"
    begun.write(
        volume(app) + cluster(name) + secret(app, "HOST", f"template: '${{PostgresCluster/{name}:id}}'")
    )
    planned = begun.json("plan")
    assert planned.json["diagnostics"] == []
    assert change(planned, f"PostgresCluster/{name}")["reason"].startswith(
        "needs approval: no list shows a PostgresCluster, and none was ever recorded"
    )
    assert "needs approval" not in change(planned, f"Volume/{app}/data")["reason"]
    begun.run("plan", "--detailed-exitcode", code=2)
    with sandbox.recording() as requests:
        refused = begun.apply(code=1)
    assert codes(refused) == ["create-not-approved"]
    assert f"--approve-create PostgresCluster/{name}" in refused.json["diagnostics"][0]["help"]
    assert not [each for each in requests if each[0] in MUTATIONS]
    begun.apply("--approve-create", f"Volume/{app}/data", code=1)
    begun.apply("--approve-create", f"PostgresCluster/{name}")
    assert len(sandbox.clusters(name)) == 1


def test_a_kind_that_was_recorded_once_needs_no_approval(begun: Project, sandbox: Sandbox, app: str) -> None:
    name = f"db-{app}"
    begun.write(cluster(name))
    begun.apply("--approve-create", f"PostgresCluster/{name}")
    begun.run("state", "forget", f"PostgresCluster/{name}")
    begun.write(cluster(f"{name}-new"))
    assert "approval" not in change(begun.json("plan"), f"PostgresCluster/{name}-new")["reason"]
    begun.apply()
    assert len(sandbox.clusters(f"{name}-new")) == 1


def test_what_was_adopted_counts_as_recorded(begun: Project, sandbox: Sandbox, app: str) -> None:
    name = f"db-{app}"
    id = made_by_hand(sandbox, name)
    begun.write(cluster(name).replace(f"name: {name}", f"name: {name}, id: {id}"))
    begun.apply()
    begun.write(cluster(f"{name}-new"), "manifests/new.yaml")
    begun.apply()


def test_a_restore_needs_approval_too(begun: Project, sandbox: Sandbox, app: str) -> None:
    name = f"db-{app}"
    id = made_by_hand(sandbox, name)
    begun.write(
        cluster(name).replace(f"name: {name}", f"name: {name}, id: {id}")
        + cluster(f"{name}-copy", f"restore: {{from: {name}, backup_id: b1}}")
    )
    refused = begun.apply(code=1)
    assert codes(refused) == ["create-not-approved"]
    assert f"`PostgresCluster/{name}-copy`" in refused.json["diagnostics"][0]["message"]


def test_a_saved_plan_needs_the_approval_when_it_runs(begun: Project, sandbox: Sandbox, app: str) -> None:
    address = f"PostgresCluster/db-{app}"
    begun.write(cluster(f"db-{app}"))
    begun.run("plan", "--out", "saved.plan")
    refused = begun.apply("--plan", "saved.plan", code=1)
    assert codes(refused) == ["create-not-approved"]
    begun.apply("--plan", "saved.plan", "--approve-create", address)
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_a_project_that_begins_needs_no_approval(begun: Project, sandbox: Sandbox, app: str) -> None:
    begun.write(cluster(f"db-{app}"))
    begun.run("state", "init", "--new")
    assert "approval" not in begun.run("plan").out
    begun.apply()
    begun.run("state", "init", "--new", code=1)  # it has begun: another project may be meant
    assert begun.json("state", "init").json["created"] is False


def test_a_state_that_knows_something_is_no_beginning(begun: Project, app: str) -> None:
    begun.write(volume(app))
    begun.apply()
    refused = begun.run("state", "init", "--new", code=1)
    assert "this state is not new" in refused.err
    begun.write(volume(app) + cluster(f"db-{app}"))
    begun.apply(code=1)
    begun.run("state", "init")


def test_with_the_list_nothing_needs_approval(extended_project: Project, extended: Sandbox) -> None:
    root = extended_project.root
    state = {"RECONCILE_STATE": "sqlite:other.db"}
    extended_project.write(cluster("orders"))
    extended_project.run("state", "init", env=state)
    extended_project.apply(env=state)
    assert (root / "other.db").exists()
    assert len(extended.clusters("orders")) == 1


def test_the_sandbox_needs_no_approval(begun: Project, app: str) -> None:
    begun.write(cluster(f"db-{app}"))
    begun.apply("--sandbox")


def test_a_person_who_begins_at_a_terminal_needs_no_approval(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    state = {"RECONCILE_STATE": "sqlite:begin.db"}
    project.env |= state
    project.write(cluster(f"db-{app}"))
    ended, shown = on_a_terminal(project, "apply", typed=b"y\ny\n")
    assert ended == 0, shown
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_an_approval_of_what_nobody_knows_is_told(project: Project, sandbox: Sandbox, app: str) -> None:
    """A warning: an apply that is run again approves a delete that is done."""
    project.write(volume(app))
    options = ("--approve-create", f"Volume/{app}/dta", "--approve-delete", f"Volume/{app}/zzz")
    for _ in range(2):
        told = [each for each in project.apply(*options).json["diagnostics"] if "approval" in each["code"]]
        assert [(each["code"], each["severity"]) for each in told] == [("unknown-approval", "warning")] * 2
        assert told[0]["message"].startswith(f"neither a given manifest nor a record has `Volume/{app}/dta`")
        assert told[0]["help"] == f"did you mean `Volume/{app}/data`?"
        assert f"`Volume/{app}/zzz`" in told[1]["message"]
    known = ("--approve-create", f"Volume/{app}/data", "--approve-delete", f"Volume/{app}/data")
    assert codes(project.apply(*known)) == []
    project.write(volume(app) + volume(app, "other"))
    project.run("plan", "--out", "saved.plan")
    saved = project.run("apply", "--plan", "saved.plan", "--auto-approve", "--approve-delete", "Volume/x/y")
    assert "warning[unknown-approval]: neither a given manifest nor a record has `Volume/x/y`" in saved.err


def test_an_approval_with_a_mistake_is_told_beside_the_delete_that_it_was_meant_for(
    project: Project, app: str
) -> None:
    kept = volume(app, "second")
    project.write(kept + volume(app, rest="lifecycle: {deletion: delete}\n"))
    project.apply()
    project.write(kept)
    refused = project.apply("--approve-delete", f"Volume/{app}/dta", code=1)
    assert codes(refused) == ["unknown-approval", "delete-not-approved"]
