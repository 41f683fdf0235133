"""A folder for demos, whose platforms end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.demo.shop import stop
from tests.inprocess import Command


@pytest.fixture
def reconcile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "shop"
    folder.mkdir()
    yield Command(folder, monkeypatch, capsys)
    stop(folder)
