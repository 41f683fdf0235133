from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import Sandbox, serving
from tests.inprocess import Command


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--profile", "extended") as sandbox:
        yield sandbox


@pytest.fixture
def reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`reconcile` in an empty project."""
    return Command(tmp_path, monkeypatch, capsys)
