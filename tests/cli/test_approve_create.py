"""What no list shows is made only after a person named it.

Whatever the state knows or does not know: lost, copied and foreign ones are in `tests/reliability/disasters`.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import project_at
from tests.cli.harness import MUTATIONS, Project, Ran, Sandbox, cluster, only, secret, volume
from tests.cli.terminal import on_a_terminal
from tests.state.doubles import word_of


@pytest.fixture
def machine(project: Project, sandbox: Sandbox, tmp_path: Path) -> Project:
    """A second machine: a checkout and a home of its own, without a state."""
    other = project_at(tmp_path / "other", sandbox.url)
    shutil.rmtree(other.root / ".reconcile")
    other.env |= {"XDG_STATE_HOME": str(tmp_path / "other-home")}
    project.env |= {"XDG_STATE_HOME": str(tmp_path / "home")}
    return other


@pytest.fixture
def two(project: Project, app: str) -> tuple[str, str]:
    """The names of two clusters that the project has."""
    names = f"db-{app}-1", f"db-{app}-2"
    project.write("".join(map(cluster, names)))
    project.apply(*project.creating(*(f"PostgresCluster/{name}" for name in names)))
    return names


def codes(ran: Ran) -> list[str]:
    return [each["code"] for each in ran.json["diagnostics"] if each["severity"] == "error"]


def made_by_hand(sandbox: Sandbox, name: str) -> str:
    sandbox.call(
        "POST", "/v1/postgres", {"name": name, "org_slug": "personal", "plan": "starter", "region": "ams"}
    )
    return str(only(sandbox.clusters(name))["id"])


def change(ran: Ran, address: str) -> Any:
    return only([each for each in ran.json["changes"] if each["address"] == address])


def refused(project: Project, sandbox: Sandbox, *arguments: str) -> Ran:
    """An apply that asks for approvals of creates, and sends nothing."""
    with sandbox.recording() as requests:
        ran = project.apply(*arguments, code=1)
    assert {*codes(ran)} == {"create-not-approved"}
    assert not [each for each in requests if each[0] in MUTATIONS]
    return ran


def test_no_second_cluster_is_made_under_an_empty_state(project: Project, sandbox: Sandbox, app: str) -> None:
    """The state was lost, and a pipeline made an empty one."""
    name, word = f"db-{app}", word_of(project.root)
    option = f"--approve-create PostgresCluster/{name}@{word}"
    project.write(
        volume(app) + cluster(name) + secret(app, "HOST", f"template: '${{PostgresCluster/{name}:id}}'")
    )
    planned = project.json("plan")
    assert (codes(planned), planned.json["context"]["lineage"][:8]) == ([], word)
    assert change(planned, f"PostgresCluster/{name}")["reason"].startswith(
        f"needs approval: no list shows whether it exists; {option}"
    )
    assert "needs approval" not in change(planned, f"Volume/{app}/data")["reason"]
    project.run("plan", "--detailed-exitcode", code=2)
    help = refused(project, sandbox).json["diagnostics"][0]["help"]
    assert "write its id as `metadata.id`" in help
    assert help.endswith(option)
    project.apply(*option.split())
    assert len(sandbox.clusters(name)) == 1


def test_a_new_machine_makes_no_second_cluster(
    machine: Project, project: Project, sandbox: Sandbox, two: tuple[str, str]
) -> None:
    machine.write((project.root / "manifests/main.yaml").read_text())
    assert "--new changes nothing any more" in machine.run("state", "init", "--new").err
    refused(machine, sandbox)
    assert [len(sandbox.clusters(name)) for name in two] == [1, 1]


def test_a_recorded_cluster_does_not_approve_another(
    machine: Project, project: Project, sandbox: Sandbox, app: str, two: tuple[str, str]
) -> None:
    machine.write((project.root / "manifests/main.yaml").read_text())
    new = machine.write(cluster(f"db-{app}-3"), "manifests/new.yaml")
    machine.run("state", "init")
    machine.apply(str(new), *machine.creating(f"PostgresCluster/db-{app}-3"))
    refused(machine, sandbox)
    machine.run("state", "forget", f"PostgresCluster/db-{app}-3")
    assert [len(sandbox.clusters(f"db-{app}-{number}")) for number in (1, 2, 3)] == [1, 1, 1]
    ran = refused(machine, sandbox)
    assert len(ran.json["diagnostics"]) == 3  # it was recorded once, and is not known any more


def test_the_lost_state_of_a_new_laptop(
    machine: Project, project: Project, sandbox: Sandbox, app: str, two: tuple[str, str]
) -> None:
    """DataTalks.Club, 2026-03: a second production was created, and cleaning it up deleted the first one."""
    text = (project.root / "manifests/main.yaml").read_text() + volume(app)
    project.write(text)
    project.apply()
    machine.write(text)
    with sandbox.recording() as requests:
        assert "state-missing" in codes(machine.apply(code=1))
        machine.run("state", "init")
        refused(machine, sandbox)
        machine.write(cluster(two[0]))  # "remove the duplicates"
        refused(machine, sandbox)
        machine.remove()
        machine.apply(code=None)
        shutil.rmtree(machine.root / ".reconcile")
        shutil.copytree(project.root / ".reconcile", machine.root / ".reconcile")  # the old state is found
        machine.apply(code=None)
    assert not [each for each in requests if each[0] in MUTATIONS]
    assert [len(sandbox.clusters(name)) for name in two] == [1, 1]
    assert sandbox.volume(app)["state"] == "created"


def test_what_stays_in_a_workflow_file_approves_nothing_in_another_state(
    machine: Project, project: Project, sandbox: Sandbox, two: tuple[str, str]
) -> None:
    machine.write((project.root / "manifests/main.yaml").read_text())
    machine.run("state", "init")
    old, word = word_of(project.root), word_of(machine.root)
    left = {"RECONCILE_APPROVE_CREATE": ", ".join(f"PostgresCluster/{name}@{old}" for name in two)}
    found = machine.apply(code=1, env=left)
    assert sorted(codes(found)) == ["create-not-approved"] * 2 + ["unknown-approval"] * 2
    bare = machine.apply("--approve-create", f"PostgresCluster/{two[0]}", code=1)
    (problem,) = [each for each in bare.json["diagnostics"] if each["code"] == "unknown-approval"]
    assert "is approved without the word of a state" in problem["message"]
    assert problem["help"].endswith(f"--approve-create PostgresCluster/{two[0]}@{word}")
    unplanned = machine.apply("--approve-create", f"PostgresCluster/none@{old}", code=1).json["diagnostics"]
    (problem,) = [each for each in unplanned if each["code"] == "unknown-approval"]
    assert problem["help"].startswith(f"take --approve-create PostgresCluster/none@{old} out")
    again = project.apply(env=left)  # where they were made, the job is run again
    assert codes(again) == []
    assert f"`PostgresCluster/{two[0]}` is approved, and its create is done already" in again.err
    assert [len(sandbox.clusters(name)) for name in two] == [1, 1]


def test_several_creates_are_approved_by_a_variable(project: Project, sandbox: Sandbox, app: str) -> None:
    names, word = (f"db-{app}-1", f"db-{app}-2"), word_of(project.root)
    project.write("".join(map(cluster, names)))
    project.apply(
        env={"RECONCILE_APPROVE_CREATE": ",".join(f"PostgresCluster/{each}@{word}" for each in names)}
    )
    assert [len(sandbox.clusters(name)) for name in names] == [1, 1]


def test_a_restore_needs_approval_too(project: Project, sandbox: Sandbox, app: str) -> None:
    name = f"db-{app}"
    id = made_by_hand(sandbox, name)
    project.write(
        cluster(name).replace(f"name: {name}", f"name: {name}, id: {id}")
        + cluster(f"{name}-copy", f"restore: {{from: {name}, backup_id: b1}}")
    )
    ran = refused(project, sandbox)
    assert f"`PostgresCluster/{name}-copy`" in only(ran.json["diagnostics"])["message"]


def test_a_saved_plan_needs_the_approval_when_it_runs(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(cluster(f"db-{app}"))
    project.run("plan", "--out", "saved.plan")
    refused(project, sandbox, "--plan", "saved.plan")
    project.apply("--plan", "saved.plan", *project.creating(f"PostgresCluster/db-{app}"))
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_with_the_list_nothing_needs_approval(extended_project: Project, extended: Sandbox) -> None:
    extended_project.write(cluster("orders"))
    extended_project.apply()
    assert len(extended.clusters("orders")) == 1


def test_the_embedded_sandbox_needs_no_approval(project: Project, app: str) -> None:
    project.write(cluster(f"db-{app}"))
    project.apply("--sandbox")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_at_a_terminal_is_asked_by_name(
    answer: str, project: Project, sandbox: Sandbox, app: str
) -> None:
    project.env |= {"RECONCILE_STATE": "sqlite:begin.db"}
    project.write(cluster(f"db-{app}"))
    ended, shown = on_a_terminal(project, "apply", typed=f"y\n{answer}\n".encode())
    assert f"Apply this plan, and create PostgresCluster/db-{app}?" in " ".join(shown.split())
    assert (ended, len(sandbox.clusters(f"db-{app}"))) == ((0, 1) if answer == "y" else (1, 0)), shown


def test_who_says_that_nothing_was_created_approves_the_next_create(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    address = f"PostgresCluster/db-{app}"
    project.write(cluster(f"db-{app}"))
    sandbox.fault("POST", "/v1/postgres", "drop_before")
    project.apply(*project.creating(address), code=3)
    project.run("resolve", address, "--not-created", "--force")
    assert "needs approval" not in project.run("plan").out
    project.apply()
    project.run("state", "forget", address)
    refused(project, sandbox)  # it was about one create
    assert len(sandbox.clusters(f"db-{app}")) == 1


def test_an_approval_of_nothing_is_an_error(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    options = *project.creating(f"Volume/{app}/dta"), "--approve-delete", f"Volume/{app}/data"
    ran = project.apply(*options, code=1)
    assert codes(ran) == ["unknown-approval"] * 2
    told = [(each["message"], each["help"]) for each in ran.json["diagnostics"]]
    assert told[0] == (
        f"`Volume/{app}/dta` is approved, but nothing will create it",
        f"did you mean `Volume/{app}/data`?",
    )
    assert told[1][0] == f"`Volume/{app}/data` is approved, but nothing will delete it"
    assert sandbox.volumes(app) == []
    project.apply(*project.creating(f"Volume/{app}/data"))  # a list shows it: it would not be needed
    project.write(volume(app) + volume(app, "other"))
    project.run("plan", "--out", "saved.plan")
    saved = project.run(
        "apply", "--plan", "saved.plan", "--auto-approve", "--approve-delete", "Volume/x/y", code=1
    )
    assert "error[unknown-approval]: `Volume/x/y` is approved, but nothing will delete it" in saved.err


def test_a_job_with_an_approved_delete_can_be_run_again(project: Project, sandbox: Sandbox, app: str) -> None:
    kept = volume(app, "second")
    project.write(kept + volume(app, rest="lifecycle: {deletion: delete}\n"))
    project.apply()
    project.write(kept)
    options = "--approve-delete", f"Volume/{app}/data"
    project.apply(*options)
    again = project.apply(*options)
    assert codes(again) == []
    assert f"`Volume/{app}/data` is approved, and its delete is done already" in again.err
    project.apply(*project.creating(f"Volume/{app}/gone"), code=1)


def test_an_approval_with_a_mistake_is_told_beside_the_delete_that_it_was_meant_for(
    project: Project, app: str
) -> None:
    kept = volume(app, "second")
    project.write(kept + volume(app, rest="lifecycle: {deletion: delete}\n"))
    project.apply()
    project.write(kept)
    ran = project.apply("--approve-delete", f"Volume/{app}/dta", code=1)
    assert sorted(codes(ran)) == ["delete-not-approved", "unknown-approval"]
