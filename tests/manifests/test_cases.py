"""Manifests with mistakes: `cases/NAME.yaml` is reported as `cases/NAME.txt`, to the letter."""

from pathlib import Path

import pytest

from reconciler.manifests.load import load
from reconciler.reports.diagnostics import render
from tests.manifests.every_kind import with_kinds

CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.yaml"))


def report(case: Path) -> str:
    lines = case.read_text(encoding="utf-8").splitlines()
    loaded = load([str(case)], root=case.parent)
    return render(
        loaded.diagnostics, lambda file, number: lines[number - 1] if number <= len(lines) else None
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_mistakes_are_reported_as_recorded(case: Path) -> None:
    assert report(case) == with_kinds(case.with_suffix(".txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_no_report_repeats_what_a_secret_manifest_holds(case: Path) -> None:
    text = report(case)
    assert text
    assert "hunter2" not in text
    assert "31337" not in text
