"""What is read for a command and for the excerpts of its diagnostics is bounded."""

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.manifests.files import STDIN
from reconciler.manifests.reading.text import MOST_BYTES
from reconciler.pipeline import source_texts as sources


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing remembered from another test; the project is an empty directory."""
    monkeypatch.chdir(tmp_path)
    sources.read_stdin.cache_clear()
    sources._lines.cache_clear()
    yield
    sources.read_stdin.cache_clear()
    sources._lines.cache_clear()


def give(data: io.RawIOBase | io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))


def test_an_endless_standard_input_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123 - buffered, as sys.stdin.buffer is
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=endless))
        assert len(sources.read_stdin()) == MOST_BYTES + 1
        assert sources.read_line(STDIN, 1) is None


def test_lines_of_standard_input_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    give(io.BytesIO(b"\xef\xbb\xbfa: 1\r\nb: 2\n"), monkeypatch)
    assert sources.read_line(STDIN, 1) == "a: 1"
    assert sources.read_line(STDIN, 2) == "b: 2"
    assert sources.read_line(STDIN, 9) is None


def test_a_pipe_is_not_opened_again_for_an_excerpt(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert sources.read_line("pipe.yaml", 1) is None


def test_a_device_is_not_read_for_an_excerpt() -> None:
    assert sources.read_line("/dev/zero", 1) is None


def test_a_file_that_is_too_large_has_no_excerpt(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"#\n" * MOST_BYTES)
    assert sources.read_line("a.yaml", 1) is None


def test_a_very_long_line_has_no_excerpt_but_its_neighbours_have(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# short\n#" + "é" * 500_000 + "\n")
    assert sources.read_line("a.yaml", 1) == "# short"
    assert sources.read_line("a.yaml", 2) is None
