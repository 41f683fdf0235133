"""The demo as a project of tests: in this process, and its platform ends with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.demo.shop import stop
from tests.inprocess import Command


@pytest.fixture
def empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """An empty folder. Whatever demo is begun there is stopped afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDECODE", raising=False)
    folder = tmp_path / "shop"
    folder.mkdir()
    yield Command(folder, monkeypatch, capsys)
    stop(folder)


@pytest.fixture
def shop(empty: Command) -> Command:
    """A demo: a small shop, already applied."""
    empty("demo")
    return empty
