from pathlib import Path

import pytest

from tests.inprocess import Command


@pytest.fixture
def reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`reconcile` in an empty project."""
    return Command(tmp_path, monkeypatch, capsys)
