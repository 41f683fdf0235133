"""-o and --report: one run, several reports, each written whole or not at all."""

import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.reports.formats import find_format, find_formats, formats_for
from tests.inprocess import Command, volume


@pytest.fixture
def reconcile(reconcile: Command) -> Command:
    """In a project with one volume."""
    reconcile.write("manifests/data.yaml", volume())
    return reconcile


def test_one_run_writes_several_reports(reconcile: Command) -> None:
    reconcile("validate --report json=a.json --report text=b.txt -o json")
    assert json.loads((reconcile.root / "a.json").read_text())["format_version"] == "1"
    assert (reconcile.root / "b.txt").read_text() == "Valid: 1 resource in 1 file.\n"


def test_a_failure_is_in_the_reports_too(reconcile: Command) -> None:
    ended = reconcile("plan --report json=a.json --report markdown=b.md --report text=c.txt", code=1)
    assert "no platform is configured" in ended.err
    assert ended.out == ""
    (problem,) = json.loads((reconcile.root / "a.json").read_text())["diagnostics"]
    assert problem["message"] == "no platform is configured"
    assert (reconcile.root / "b.md").read_text().startswith("**Failed:** <code>no platform is configured<")
    assert (reconcile.root / "c.txt").read_text().startswith("error: no platform is configured\n  = help: ")


def test_a_markdown_failure_stands_on_stdout(reconcile: Command) -> None:
    assert reconcile("plan -o markdown", code=1).out.startswith("**Failed:**")


def test_a_text_report_has_excerpts(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume(size_gb=0))
    reconcile("validate --report text=a.txt", code=1)
    assert "size_gb: 0" in (reconcile.root / "a.txt").read_text()


def test_manifests_with_errors_are_not_called_valid(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume(size_gb=0))
    ended = reconcile("validate", code=1)
    assert ended.out == ""
    assert "size_gb: 0" in ended.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("state list -o markdown", "`markdown` is not a format of this report: it has text, json"),
        ("state list --output=sarif", "`sarif` is not a format of this report: it has text, json"),
        ("plan -o pdf", "`pdf` is not a format of this report: it has text, "),
        ("plan --report pdf=a.pdf", "`pdf` is not a format of this report: it has text, "),
        ("plan --report json", "is not FORMAT=FILE"),
        ("plan --report json=", "is not FORMAT=FILE"),
        ("plan --report json=-", "is not FORMAT=FILE"),
        ("plan --report json=nowhere/a.json", "there is no directory `nowhere`"),
        ("plan --report json=manifests", "`manifests` is not a regular file"),
        ("plan --report json=a --report text=a", "two reports cannot be written to one file"),
        ("plan --report json=a --report text=./manifests/../a", "two reports cannot be written to one file"),
        ("plan --out a --report text=a", "a is written by another option, too"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused_before_anything_is_read(
    reconcile: Command, line: str, message: str
) -> None:
    assert message in reconcile(line, code=64).err.replace("\n", " ")


def test_a_report_that_cannot_be_written_fails_the_run_and_leaves_nothing_half_written(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    old = reconcile.write("a.json", "old")
    monkeypatch.setattr(Path, "replace", full)
    ended = reconcile("validate --report json=a.json", code=1)
    assert ended.out.startswith("Valid: ")
    assert "the report is missing: cannot write a.json: No space left on device" in ended.err
    assert old.read_text() == "old"
    assert sorted(path.name for path in reconcile.root.iterdir() if path.is_file()) == ["a.json"]


def test_an_existing_report_is_replaced_with_an_ordinary_mode(reconcile: Command) -> None:
    old = reconcile.write("a.json", "old")
    old.chmod(0o600)
    reconcile("validate --report json=a.json")
    assert json.loads(old.read_text())["diagnostics"] == []
    fresh = reconcile.write("fresh", "")
    assert old.stat().st_mode == fresh.stat().st_mode


def test_a_file_that_standard_output_goes_to_is_no_report(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report would take the place of the file, and what is printed would be lost."""
    file = reconcile.write("a.json", "")
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda number: file.stat() if number == 1 else real(number))
    assert "standard output is written to" in reconcile("validate -o json --report json=a.json", code=64).err
    assert file.read_text() == ""


def test_a_folder_that_cannot_be_written_is_told_at_once(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "nothing can be written to the directory" in reconcile("plan --report json=a.json", code=64).err


def test_places_of_problems_are_links_in_a_job_of_ci(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "team/infra")
    monkeypatch.setenv("GITHUB_SHA", "3f2a9c1d")
    (reconcile.root / ".git").mkdir()
    reconcile.write("deep/reconcile.yaml", "manifests: [more]\n")
    reconcile.write("deep/more/data.yaml", volume(size_gb=0))
    shown = reconcile("validate -o markdown", code=1, cwd="deep").out
    assert '<a href="https://git.example/team/infra/blob/3f2a9c1d/deep/more/data.yaml#L5">' in shown


def test_one_run_writes_every_format(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume(size_gb=0))
    names = sorted(formats_for("validate"))
    options = " ".join(f"--report {name}=report.{name}" for name in names)
    for verb in ("validate", "plan"):
        reconcile(f"{verb} {options}", code=1)
        for name in names:
            text = (reconcile.root / f"report.{name}").read_text()
            assert "out-of-range" in text, name
            assert text.endswith("\n"), name


def test_github_gets_annotations_and_the_summary_of_the_step(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile.write("manifests/data.yaml", volume(size_gb=0))
    summary = reconcile.write("summary.md", "# said before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    shown = reconcile("validate -o github", code=1).out
    assert "\n::error file=manifests/data.yaml,line=5," in shown
    before, _, added = summary.read_text().partition("\n")
    assert before == "# said before"
    assert added == reconcile("validate -o markdown", code=1).out


def test_a_summary_that_cannot_be_written_fails_the_run(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(reconcile.root / "nowhere" / "summary.md"))
    ended = reconcile("validate -o github", code=1)
    assert ended.out == "Valid: 1 resource in 1 file.\n"
    assert "cannot write the summary of the step to " in ended.err


@pytest.mark.parametrize("options", ["-o junit", "--report junit=a.xml", "-o github"])
def test_a_defect_of_a_format_is_told_as_an_error(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    def fails(*arguments: object) -> str:
        raise KeyError("size_gb")

    name = "github" if "github" in options else "junit"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(reconcile.root / "summary.md"))
    broken = replace(find_formats()[name], write=fails, step_summary=fails if name == "github" else None)
    monkeypatch.setattr(f"reconciler.reports.formats.{name}.FORMAT", broken)
    find_format.cache_clear()
    try:
        ended = reconcile(f"validate {options}", code=1)
    finally:
        find_format.cache_clear()
    assert f"error: a defect in the format {name}: KeyError: 'size_gb'; use another format\n" in ended.err
    assert not (reconcile.root / "a.xml").exists()


def test_a_format_that_cannot_be_imported_is_told_as_an_error(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reconciler.reports.formats.junit", None)
    find_format.cache_clear()
    try:
        ended = reconcile("validate -o junit", code=64)
    finally:
        find_format.cache_clear()
    assert "a defect in the format junit: ModuleNotFoundError: " in ended.err
