"""Every report says first what it is about: environment, platform, state and git revision."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.context import without_credentials
from reconciler.state.store import Event, Run
from tests.cli.harness import Project, Sandbox, volume
from tests.cli.test_who_and_why import entries
from tests.revisions.repository import commit, git

KEYS = ["environment", "platform", "state", "lineage", "revision", "dirty", "version", "at"]


@pytest.fixture
def repository(project: Project, app: str) -> Project:
    """A project with one committed volume."""
    git(project.root, "init", "-q", "-b", "main")
    project.write(volume(app))
    project.write(".reconcile/\n", ".gitignore")
    commit(project.root)
    return project


def context_of(project: Project, *arguments: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = project.json(*arguments, **more).json["context"]
    return found


def saved_context(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())["plan"]["context"]
    return found


def test_every_report_begins_with_its_context(repository: Project, sandbox: Sandbox, app: str) -> None:
    head = git(repository.root, "rev-parse", "HEAD")
    line = f"base: {sandbox.url}, sqlite:.reconcile/state.db, {head[:8]}"
    proposed = repository.run("plan", "--out", "saved.plan", "--report", "markdown=plan.md")
    assert proposed.out.splitlines()[0] == line
    about = (repository.root / "plan.md").read_text().splitlines()
    assert about[0].startswith("<code>base</code> **Plan: ")
    assert about[2].startswith("<code>http&#58;")
    assert repository.run("apply", "--auto-approve").out.count(sandbox.url) == 1
    address = f"Volume/{app}/data"
    for words in (["plan"], ["apply", "--auto-approve"], ["drift"], ["show", address], ["state", "list"]):
        assert repository.run(*words).out.splitlines()[0] == line, words
        found = context_of(repository, *words)
        assert list(found) == KEYS, words
        assert found["revision"] == head
        assert found["platform"] == sandbox.url
        assert found["environment"] == "base"
        assert found["state"] == "sqlite:.reconcile/state.db"
        assert found["dirty"] is False
        assert found["lineage"] == json.loads(repository.json("state", "list").out)["context"]["lineage"]
        assert datetime.fromisoformat(found["at"]).tzinfo is not None
    assert list(saved_context(repository.root / "saved.plan")) == KEYS
    assert saved_context(repository.root / "saved.plan")["revision"] == head


def test_a_state_that_is_not_there_yet_has_no_lineage(repository: Project) -> None:
    assert context_of(repository, "plan", "--state", "sqlite:other.db")["lineage"] is None
    assert context_of(repository, "plan")["lineage"] is not None


def test_the_embedded_platform_is_called_sandbox(repository: Project) -> None:
    assert context_of(repository, "plan", "--sandbox")["platform"] == "sandbox"


def test_an_environment_is_named(repository: Project, app: str) -> None:
    repository.write(f"Volume/{app}/data: {{spec: {{size_gb: 20}}}}\n", "overlays/prod/all.yaml")
    commit(repository.root)
    repository.run("state", "init", "--env", "prod")
    found = context_of(repository, "plan", "--env", "prod")
    assert (found["environment"], found["dirty"]) == ("prod", False)
    assert found["state"] == "sqlite:.reconcile/prod/state.db"
    for verb in (["plan"], ["state", "list"]):
        assert context_of(repository, *verb, "--env", "base")["dirty"] is False
        assert context_of(repository, *verb, "--env", "prod")["dirty"] is False
    repository.write(f"Volume/{app}/data: {{spec: {{size_gb: 30}}}}\n", "overlays/prod/all.yaml")
    for verb in (["plan"], ["state", "list"]):
        assert context_of(repository, *verb, "--env", "base")["dirty"] is False  # of another environment
        assert context_of(repository, *verb, "--env", "prod")["dirty"] is True


def append(name: str, text: str = "# more\n") -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text)

    return change


def ignored(root: Path) -> None:
    append("manifests/private.yaml")(root)
    append(".git/info/exclude", "private.yaml\n")(root)


def lost(root: Path) -> None:
    append("manifests/empty.yaml")(root)
    commit(root)
    (root / "manifests/empty.yaml").unlink()


def unwatched(root: Path) -> None:
    """As far as git's index knows, nothing changed."""
    git(root, "update-index", "--assume-unchanged", "manifests/main.yaml")
    append("manifests/main.yaml")(root)


@pytest.mark.parametrize(
    ("change", "dirty"),
    [
        (append("manifests/main.yaml"), True),
        (append("manifests/new.yaml"), True),
        (append("reconcile.yaml"), True),
        (ignored, True),
        (lost, True),
        (unwatched, True),
        (append("README.md"), False),
        (append("manifests/notes.txt"), False),
        (append("manifests/.hidden.yaml"), False),
        (append("elsewhere/main.yaml"), False),
    ],
)
def test_only_manifests_overlays_and_settings_make_it_dirty(
    repository: Project, change: Callable[[Path], None], dirty: bool
) -> None:
    change(repository.root)
    head = git(repository.root, "rev-parse", "HEAD")[:8]
    assert context_of(repository, "plan")["dirty"] is dirty
    assert context_of(repository, "state", "list")["dirty"] is dirty
    shown = repository.run("plan").out.splitlines()[0]
    assert shown.endswith(f"{head}-dirty" if dirty else head)


def test_manifests_from_standard_input_are_of_no_revision(repository: Project, app: str) -> None:
    ran = repository.run("plan", "-", "-o", "json", stdin=volume(app))
    assert ran.json["context"]["dirty"] is True


def test_the_revision_of_ref_is_named(repository: Project, app: str) -> None:
    first = git(repository.root, "rev-parse", "HEAD")
    repository.write(volume(app, spec="region: ams, size_gb: 30"))
    commit(repository.root)
    found = context_of(repository, "plan", "--ref", "HEAD~1")
    assert (found["revision"], found["dirty"]) == (first, False)
    append("reconcile.yaml")(repository.root)  # settings are those of the working tree
    assert context_of(repository, "plan", "--ref", "HEAD~1")["dirty"] is True


def test_without_git_nothing_is_said_of_a_revision(project: Project, app: str, tmp_path: Path) -> None:
    project.write(volume(app))
    found = context_of(project, "plan")
    assert (found["revision"], found["dirty"]) == (None, None)
    assert project.run("plan").out.splitlines()[0].endswith(", no revision")
    git(project.root, "init", "-q")
    assert context_of(project, "plan")["revision"] is None  # no commit yet
    commit(project.root)
    (tmp_path / "nothing").mkdir()
    no_git = {"PATH": str(tmp_path / "nothing")}
    assert context_of(project, "plan", env=no_git)["revision"] is None
    assert context_of(project, "state", "list", env=no_git)["dirty"] is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:/srv/a@b/state.db", "sqlite:/srv/a@b/state.db"),
        ("postgresql://ann:hunter2@db.example:5432/state?password=x#y", "postgresql://db.example:5432/state"),
        ("s3://key:secret@bucket/folder", "s3://bucket/folder"),
    ],
)
def test_no_credentials_stand_in_the_state(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


# --- a saved plan is compared with the plan of these manifests ---


def refused(project: Project, *arguments: str) -> str:
    ran = project.json("apply", "--plan", "saved.plan", *arguments, code=1)
    (problem,) = ran.json["diagnostics"]
    assert problem["code"] == "plan-moved"
    assert problem["advice"]
    return str(problem["message"])


def test_a_plan_of_a_branch_that_was_not_merged_is_refused(
    repository: Project, sandbox: Sandbox, app: str
) -> None:
    git(repository.root, "checkout", "-q", "-b", "work")
    repository.write(volume(app, spec="region: ams, size_gb: 99"))
    commit(repository.root)
    repository.run("plan", "--out", "saved.plan")
    git(repository.root, "checkout", "-q", "main")
    with sandbox.recording() as requests:
        then, now = refused(repository).split(", but this run plans ")
    assert then.startswith(f"`Volume/{app}/data`: the file plans create")
    assert '"size_gb": 99' in then
    assert '"size_gb": 10' in now
    assert {method for method, _ in requests} == {"GET"}
    git(repository.root, "merge", "-q", "--no-ff", "-m", "merge", "work")
    repository.write(
        "# another commit, the same resources\n" + (repository.root / "manifests/main.yaml").read_text()
    )
    commit(repository.root)
    applied = repository.json("apply", "--plan", "saved.plan").json
    assert [result["outcome"] for result in applied["results"]] == ["done"]
    assert sandbox.volume(app)["size_gb"] == 99
    assert applied["context"]["revision"] == git(repository.root, "rev-parse", "HEAD")  # of this run


def test_a_plan_is_run_with_the_paths_and_the_revision_that_apply_is_given(
    repository: Project, sandbox: Sandbox, app: str
) -> None:
    repository.write(volume(app, "logs", "region: fra, size_gb: 3"), "more/logs.yaml")
    repository.run("plan", "../more", "--out", "../saved.plan", cwd=repository.root / "manifests")
    assert refused(repository) == "the file was made for the paths more, not of the settings"
    repository.write(volume(app, "other"), "manifests/other.yaml")  # not of the plan
    of_paths = repository.json("apply", "--plan", "saved.plan", "more")
    assert list(of_paths.outcomes()) == [f"Volume/{app}/logs#create"]

    repository.run("plan", "--ref", "HEAD", "--out", "saved.plan")
    repository.write(volume(app, spec="region: ams, size_gb: 30"))
    assert refused(repository) == "the file was made for the revision HEAD, not of the working tree"
    of_revision = repository.json("apply", "--plan", "saved.plan", "--ref", "HEAD")
    assert list(of_revision.outcomes()) == [f"Volume/{app}/data#create"]
    assert {each["name"]: each["size_gb"] for each in sandbox.volumes(app)} == {"data": 10, "logs": 3}


def test_a_revision_that_moved_on_is_compared_as_it_is_now(
    repository: Project, sandbox: Sandbox, app: str
) -> None:
    repository.run("plan", "--ref", "main", "--out", "saved.plan")
    repository.write(volume(app, spec="region: ams, size_gb: 30"))
    commit(repository.root)
    told = refused(repository, "--ref", "main")
    assert told.startswith(f"`Volume/{app}/data`: the file plans create")
    assert '"size_gb": 30' in told
    assert sandbox.volumes(app) == []


def test_a_setting_of_a_manifest_that_its_calls_hold_counts(
    repository: Project, sandbox: Sandbox, app: str
) -> None:
    repository.run("plan", "--out", "saved.plan")
    repository.write(volume(app, spec="region: ams, size_gb: 10, snapshot_retention: 7"))
    then, now = refused(repository).split(", but this run plans ")
    assert "snapshot_retention" not in then
    assert '"snapshot_retention": 7' in now
    assert sandbox.volumes(app) == []


@pytest.mark.parametrize(
    ("spec", "rest"),
    [
        ("region: ams, size_gb: 10", "lifecycle: {timeout_s: 99}\n"),
        ("region: ams, size_gb: {min: 10, max: 20}", ""),
    ],
)
def test_what_changes_no_call_of_the_plan_is_no_difference(
    repository: Project, sandbox: Sandbox, app: str, spec: str, rest: str
) -> None:
    repository.run("plan", "--out", "saved.plan")
    repository.write(volume(app, spec=spec, rest=rest))
    applied = repository.json("apply", "--plan", "saved.plan")
    assert applied.outcomes() == {f"Volume/{app}/data#create": "done"}
    assert applied.json["diagnostics"] == []
    (step,) = applied.json["steps"]
    assert step["wait"]["timeout_s"] == (99 if "timeout_s" in rest else 1800)  # of the manifests of now
    assert sandbox.volume(app)["size_gb"] == 10


def test_what_nobody_reviewed_decides_no_deletion(repository: Project, app: str) -> None:
    repository.run("plan", "--out", "saved.plan")
    repository.write(volume(app, rest="lifecycle: {deletion: delete}\n"))
    assert refused(repository).endswith('deletion: "delete"')


def test_a_policy_that_gives_values_counts(repository: Project, sandbox: Sandbox, app: str) -> None:
    repository.run("plan", "--out", "saved.plan")
    policy = "apiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: keep}\n"
    repository.write(
        f"{policy}spec: {{selector: {{app: {app}}}, snapshot_retention: 7}}\n", "manifests/policy.yaml"
    )
    assert '"snapshot_retention": 7' in refused(repository).split(", but this run plans ")[1]
    assert sandbox.volumes(app) == []


def test_a_run_notes_its_own_plan_and_the_digest_and_the_revision_of_its_manifests(
    repository: Project,
) -> None:
    repository.run("plan", "--out", "saved.plan")
    saved = json.loads((repository.root / "saved.plan").read_text())["plan"]
    repository.run("apply", "--plan", "saved.plan")

    (started,) = entries(repository, Event.RUN_STARTED)
    run = Run.from_json(started)
    assert run.plan
    assert run.plan != saved["id"]  # what ran is what this run planned
    assert run.resources == saved["manifests"]["digest"]
    assert run.revision == saved["context"]["revision"]
