"""Broken manifests: each is told of at its place, by every verb, and nothing is written. See `broken`."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.manifests.broken.running import CASES, Ran, project, read_golden, run

GOLDEN = read_golden()
SAID = re.compile(r"^ +--> (?P<file>.+):(?P<line>\d+):(?P<column>\d+)$", re.MULTILINE)


def places(text: str) -> list[tuple[int, int]]:
    return [(int(found["line"]), int(found["column"])) for found in SAID.finditer(text)]


def tree(root: Path) -> dict[str, object]:
    """Everything below `root` that a verb could have written."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = () if path.is_dir() else (status.st_size, status.st_mtime_ns)
        found[str(path)] = (status.st_mode, status.st_ino, *content)
    return found


def test_there_is_one_golden_entry_for_each_case() -> None:
    assert list(GOLDEN) == list(CASES)
    assert len(CASES) >= 100


@pytest.mark.parametrize("case", CASES)
def test_a_broken_manifest_is_told_of_at_its_place_and_nothing_is_written(case: str) -> None:
    golden = GOLDEN[case]
    with project(case) as root:
        before = tree(root)
        text = run(case, root, "validate")
        document = run(case, root, "validate", "--output", "json")
        planned = run(case, root, "plan")
        applied = run(case, root, "apply", "--auto-approve", "--output", "json")
        assert tree(root) == before
    assert text.err == golden
    assert places(golden)
    refused = "error[" in golden
    assert text.code == document.code == (1 if refused else 0)
    assert _pointed_at(document) == places(golden)
    if refused:
        assert planned.code == applied.code == 1
        assert planned.err.startswith(golden)
        assert _pointed_at(applied) == places(golden)
    for told in (text, document, planned, applied):
        assert "hunter2" not in told.out + told.err
        assert "Traceback" not in told.err


def _pointed_at(told: Ran) -> list[tuple[int, int]]:
    return [(item["line"], item["column"]) for item in json.loads(told.out)["diagnostics"]]


@pytest.mark.parametrize("case", CASES)
def test_every_place_lies_inside_its_file(case: str) -> None:
    """As an editor counts, that is, in characters of a text without its mark of byte order."""
    with project(case) as root:
        for found in SAID.finditer(GOLDEN[case]):
            path = root / found["file"]
            readable = path.is_file() and os.access(path, os.R_OK) and not path.is_symlink()
            if not readable or path.stat().st_size > 1 << 23:
                continue
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            lines = re.split("\r\n|\r|\n", text)
            assert 1 <= int(found["line"]) <= len(lines)
            assert 1 <= int(found["column"]) <= len(lines[int(found["line"]) - 1]) + 1
