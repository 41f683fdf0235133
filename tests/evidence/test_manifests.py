"""The manifests of a run are found by their digest: in the working tree, or at its revision."""

import os
import subprocess
from pathlib import Path

import pytest

from reconciler.evidence.export import NotExportable, manifests_of
from reconciler.manifests.load import load
from reconciler.manifests.meaning import digest_resources
from reconciler.project.files import SourceTexts
from reconciler.project.settings import ProjectSettings, find_settings
from reconciler.state.runs import PastRun
from reconciler.state.store import Run
from tests.execution.stage import volume
from tests.state.worlds import NOON

FILE = "manifests/shop.yaml"


def git(folder: Path, *arguments: str) -> str:
    options = ["-c", "user.name=ana", "-c", "user.email=ana@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *options, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "reconcile.yaml").write_text("manifests: [manifests]\n")
    (tmp_path / FILE).write_text(volume())
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def settings(project: Path) -> ProjectSettings:
    return find_settings(project, os.environ)


def of_now(project: Path, *, dirty: bool = False) -> PastRun:
    """A run that was made from what is there now."""
    digest = digest_resources(load([str(project / FILE)], root=project).resources)
    revision = git(project, "rev-parse", "HEAD")
    return PastRun("r1", Run("p1", resources=digest, revision=revision, dirty=dirty), NOON)


def found(project: Path, run: PastRun) -> list[str]:
    made_from = manifests_of(run, (), settings(project), SourceTexts(project, lambda: b""))
    assert len(made_from.effective) == len(made_from.resources)
    return [str(each.address) for each in made_from.resources]


def test_they_are_found_in_the_working_tree_and_later_at_their_revision(project: Path) -> None:
    run = of_now(project)
    assert found(project, run) == ["Volume/shop/data"]
    (project / FILE).write_text(volume("logs"))
    assert found(project, run) == ["Volume/shop/data"]


def test_those_that_no_revision_holds_are_refused(project: Path) -> None:
    run = of_now(project, dirty=True)
    (project / FILE).write_text(volume("logs"))
    with pytest.raises(NotExportable, match="not those that it was made from"):
        found(project, run)


def test_manifests_with_errors_and_revisions_that_are_not_here_are_passed_over(project: Path) -> None:
    run = of_now(project)
    run.began = Run("p1", resources=run.began.resources, revision="0" * 40, dirty=False)
    (project / FILE).write_text("kind: Nothing\n")
    with pytest.raises(NotExportable, match="not those that it was made from") as refused:
        found(project, run)
    assert refused.value.help == f"check out {'0' * 40} and try again"
