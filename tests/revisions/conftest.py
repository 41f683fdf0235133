from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import Sandbox, serving
from tests.inprocess import Command, volume
from tests.revisions.repository import ISOLATED, commit, git


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--profile", "extended") as sandbox:
        yield sandbox


@pytest.fixture
def reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`reconcile` in a repository whose branch `main` holds two volumes."""
    root = tmp_path / "project"
    root.mkdir()
    command = Command(root, monkeypatch, capsys)
    for name, value in ISOLATED.items():
        monkeypatch.setenv(name, value)
    git(root, "init", "-q", "-b", "main")
    command.write("manifests/data.yaml", volume())
    command.write("manifests/logs.yaml", volume("logs", size_gb=5))
    commit(root)
    return command
