"""Saved plans: what was reviewed is what runs, and only while it is still true."""

import shlex
import shutil
import stat
from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.cli.main import run
from reconciler.core.model import Resource
from reconciler.manifests.meaning import digest_resources
from reconciler.project.store import store_of
from reconciler.state.spooling import Spooling
from tests.cli.harness import Project, Sandbox, secret, volume
from tests.revisions.repository import commit, git


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


def test_the_state_is_opened_once(project: Project, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    opened = []

    def counted(*what: Any, **how: Any) -> Spooling:
        opened.append(what)
        return store_of(*what, **how)

    monkeypatch.setattr("reconciler.project.store.store_of", counted)
    project.enter(monkeypatch)
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

    monkeypatch.setattr("reconciler.project.desired.digest_resources", counted)
    project.enter(monkeypatch)
    assert run(["plan"]) == 0
    assert taken == []
    assert run(["plan", "-o", "json", "--out", "saved.plan"]) == 0
    assert taken == [1]


def test_a_planned_create_is_refused_when_such_an_object_appeared(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    sandbox.make_volume(app, "data")
    refused = project.run("apply", "--plan", "saved.plan", code=1)
    assert "plan-moved" in refused.err
    assert f"`Volume/{app}/data`: the file plans create" in refused.err
    assert "but this run plans adopt" in refused.err
    assert len(sandbox.volumes(app)) == 1


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


def test_a_plan_made_for_another_place_does_not_run(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    project.run("state", "init", "--state", "sqlite:other.db")
    project.run("plan", "--out", "saved.plan")
    for given, says in (
        (("--state", "sqlite:other.db"), "for the state"),
        (("manifests",), "for the paths of the settings, not manifests"),
    ):
        refused = project.json("apply", "--plan", "saved.plan", *given, code=1)
        (problem,) = refused.json["diagnostics"]
        assert problem["code"] == "plan-moved"
        assert says in problem["message"]
    assert sandbox.volumes(app) == []


@pytest.mark.parametrize("made", [("manifests/all.yaml",), ("--ref", "main"), ("--ref", "main", "manifests")])
def test_the_printed_command_runs_the_plan_as_it_was_made(
    project: Project, sandbox: Sandbox, app: str, made: Sequence[str]
) -> None:
    git(project.root, "init", "-q", "-b", "main")
    project.write(volume(app), "manifests/all.yaml")
    project.write(".reconcile/\n*.plan\n", ".gitignore")
    commit(project.root)
    told = project.run("plan", *made, "--out", "saved.plan").err
    typed = shlex.split(next(line for line in told.splitlines() if "Saved the plan" in line))
    done = project.json(*typed[typed.index("reconcile") + 1 :])
    assert done.outcomes() == {f"Volume/{app}/data#create": "done"}


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


def test_a_plan_without_a_state_is_saved_and_does_not_run(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan", "--state", "sqlite:none.db")
    assert not (project.root / "none.db").exists()
    other = project.run("apply", "--plan", "saved.plan", "--state", "sqlite:none.db", code=1)
    assert "there is no state" in other.err
    assert "for the state that did not exist" in project.run("apply", "--plan", "saved.plan", code=1).err


def test_an_older_format_is_refused_before_the_state_is_opened(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write(volume(app))
    project.run("plan", "--out", "saved.plan")
    saved = project.root / "saved.plan"
    saved.write_text(saved.read_text().replace("reconciler-plan-9", "reconciler-plan-8"))
    shutil.rmtree(project.root / ".reconcile")
    (project.root / ".reconcile").write_text("not a state")
    refused = project.run("apply", "--plan", "saved.plan", "--auto-approve", code=1)
    assert "it has the format reconciler-plan-8" in refused.err
