"""What is read for a command and for the excerpts of its diagnostics is bounded, and belongs to one run."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.cli.command_line import _read_stdin
from reconciler.manifests.files import STDIN
from reconciler.manifests.reading.refusals import MOST_BYTES
from reconciler.project.files import SourceTexts


def test_an_endless_standard_input_is_read_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123 - buffered, as sys.stdin.buffer is
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=endless))
        assert len(_read_stdin()) == MOST_BYTES + 1
        assert SourceTexts(tmp_path, _read_stdin).line(STDIN, 1) is None


def test_lines_of_standard_input_are_shown_after_it_was_read(tmp_path: Path) -> None:
    given = io.BytesIO(b"\xef\xbb\xbfa: 1\r\nb: 2\n")
    texts = SourceTexts(tmp_path, given.read)
    assert texts.stdin is not None
    assert texts.stdin() == texts.stdin() == given.getvalue()
    assert texts.line(STDIN, 1) == "a: 1"
    assert texts.line(STDIN, 2) == "b: 2"
    assert texts.line(STDIN, 9) is None


def test_a_run_without_standard_input_has_no_lines_of_it(tmp_path: Path) -> None:
    texts = SourceTexts(tmp_path)
    assert texts.stdin is None
    assert texts.line(STDIN, 1) is None


def test_two_runs_do_not_share_what_they_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n")
    first = SourceTexts(tmp_path, lambda: b"first\n")
    assert (first.line("a.yaml", 1), first.line(STDIN, 1)) == ("a: 1", "first")
    file.write_text("a: 2\n")
    second = SourceTexts(tmp_path, lambda: b"second\n")
    assert (second.line("a.yaml", 1), second.line(STDIN, 1)) == ("a: 2", "second")
    assert (first.line("a.yaml", 1), first.line(STDIN, 1)) == ("a: 1", "first")


def test_lines_come_from_a_revision_once_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    texts = SourceTexts(tmp_path)
    assert texts.line("a.yaml", 1) == "a: 1"
    texts.use({"a.yaml": b"a: then\n"})
    assert texts.line("a.yaml", 1) == "a: then"


def test_a_pipe_is_not_opened_again_for_an_excerpt(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert SourceTexts(tmp_path).line("pipe.yaml", 1) is None


def test_a_device_is_not_read_for_an_excerpt(tmp_path: Path) -> None:
    assert SourceTexts(tmp_path).line("/dev/zero", 1) is None


def test_a_file_that_is_too_large_has_no_excerpt(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"#\n" * MOST_BYTES)
    assert SourceTexts(tmp_path).line("a.yaml", 1) is None


def test_a_very_long_line_has_no_excerpt_but_its_neighbours_have(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# short\n#" + "é" * 500_000 + "\n")
    assert SourceTexts(tmp_path).line("a.yaml", 1) == "# short"
    assert SourceTexts(tmp_path).line("a.yaml", 2) is None
