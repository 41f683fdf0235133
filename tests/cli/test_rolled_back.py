"""A project's folder that is put back to an older copy, and the mark of it in the user's own folder."""

import shutil
from pathlib import Path

import pytest

from tests.cli.harness import Project, Sandbox, volume


@pytest.fixture
def home(project: Project, tmp_path: Path) -> Path:
    """This user's home."""
    project.env.pop("XDG_STATE_HOME", None)
    project.env["HOME"] = str(tmp_path / "home")
    return tmp_path / "home"


def test_a_folder_that_was_put_back_says_so_and_makes_nothing_again(
    project: Project, sandbox: Sandbox, app: str, home: Path, tmp_path: Path
) -> None:
    project.write(volume(app))
    project.apply()
    shutil.copytree(project.root / ".reconcile", tmp_path / "kept")
    project.write(volume(app) + volume(app, "logs"))
    project.apply()
    shutil.rmtree(project.root / ".reconcile")
    shutil.copytree(tmp_path / "kept", project.root / ".reconcile")
    refused = project.run("plan", code=1)
    assert "is older than what was seen of it: it lacks" in refused.err
    assert str(home / ".local/state/reconciler") in refused.err
    assert "reconcile state restore" in refused.err
    project.run("apply", "--auto-approve", code=1)
    assert len(sandbox.volumes(app)) == 2
    told = project.run("state", "restore", "--auto-approve").out
    assert "it lacks" in told
    assert project.json("state", "list").json["unclaimed"]
    assert project.apply().actions() == {f"Volume/{app}/logs": "adopt"}
    assert len(sandbox.volumes(app)) == 2


def test_init_makes_no_new_state_where_this_user_had_one(
    project: Project, app: str, home: Path, tmp_path: Path
) -> None:
    project.write(volume(app))
    project.apply()
    shutil.rmtree(project.root / ".reconcile")
    refused = project.run("state", "init", code=1)
    assert "there was a state" in refused.err
    assert "reconcile state restore FILE" in refused.err
    (mark,) = (home / ".local/state/reconciler").iterdir()
    assert str(mark) in refused.err
    mark.unlink()
    project.run("state", "init")


def test_the_variable_names_another_folder_and_the_sandbox_leaves_no_mark(
    project: Project, app: str, home: Path, tmp_path: Path
) -> None:
    project.write(volume(app))
    project.env["XDG_STATE_HOME"] = str(tmp_path / "elsewhere")
    project.apply("--sandbox")
    assert not (tmp_path / "elsewhere").exists()
    shutil.rmtree(project.root / ".reconcile")
    project.apply("--sandbox")
    project.run("state", "init")
    assert len(list((tmp_path / "elsewhere/reconciler").iterdir())) == 1
    assert not home.exists()


def test_without_a_home_everything_works(project: Project, app: str) -> None:
    project.env.pop("XDG_STATE_HOME", None)
    project.write(volume(app))
    project.apply()
    project.apply(env={"XDG_STATE_HOME": "relative", "HOME": ""})
    assert not (project.root / "relative").exists()
