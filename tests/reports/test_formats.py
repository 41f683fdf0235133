"""Formats are files: each is found, shows what it says, and takes every failure."""

import html
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import reconciler.reports.formats as formats
from reconciler.cli.main import run
from reconciler.core.advice import RunOptions, command
from reconciler.core.diagnostics import error
from reconciler.planning.graph import plan_graph
from reconciler.reports.formats import find_format, find_formats, formats_for
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    GraphReport,
    Page,
    PlanReport,
    Report,
    ValidationReport,
)
from tests.reports.plans import DIAGNOSTICS, DRIFT, OWED, PLAN, RESULTS

RETRY = command("state", "forget", "Volume/shop/data[1]")
REPORTS: dict[str, Report] = {
    "plan": PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS, metrics="one 1\n"),
    "drift": DriftReport(
        plan=DRIFT, note="Left out: 1 known.\n", more={"baseline": {"known": 1}}, metrics="one 1\n"
    ),
    "apply": ApplyReport(plan=PLAN, results=RESULTS, owed=OWED, diagnostics=DIAGNOSTICS, metrics="one 1\n"),
    "validate": ValidationReport(resources=3, files=("a.yaml", "b.yaml"), changed=("Volume/shop/data",)),
    "graph": GraphReport(graph=plan_graph(PLAN)),
    "page": Page(document={"state": "here"}, text="here\n"),
    "failure": Failure(message="it broke", help=f"run `{RETRY}`", advice=(RETRY,)),
}


def test_formats_are_found_by_their_files() -> None:
    files = {file.stem for file in Path(formats.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(find_formats()) == files
    assert next(iter(find_formats())) == "text"
    assert {name for name, each in find_formats().items() if each.in_parts} == {"text"}


@pytest.mark.parametrize("name", list(find_formats()))
@pytest.mark.parametrize("kind", list(REPORTS))
def test_a_format_shows_what_it_says_and_nothing_else(name: str, kind: str) -> None:
    format = find_formats()[name]
    if not format.can_show(kind):
        with pytest.raises(TypeError):
            format.render(REPORTS[kind])
        return
    text = format.render(REPORTS[kind])
    if (name, kind) == ("openmetrics", "failure"):
        assert text == "", "the numbers of the run before stay"
        return
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_every_kind_of_report_has_text_and_json_and_pages_have_nothing_else() -> None:
    for kind in REPORTS:
        assert {"text", "json"} <= set(formats_for(kind))
    assert formats_for("page") == ["text", "json"]
    assert formats_for("graph") == ["text", "json", "mermaid", "svg"]
    assert set(formats_for("failure")) == set(find_formats())
    for kind in ("plan", "drift", "apply", "validate"):
        numbers = {"openmetrics"} if kind == "validate" else set()
        assert set(formats_for(kind)) == set(find_formats()) - {"mermaid", "svg"} - numbers


@pytest.mark.parametrize("kind", list(REPORTS))
def test_every_json_document_begins_with_its_version(kind: str) -> None:
    document = json.loads(find_formats()["json"].render(REPORTS[kind]))
    assert next(iter(document)) == "format_version"
    assert document["format_version"] == "1"


@pytest.mark.parametrize("name", sorted({*find_formats()} - {"openmetrics"}))
def test_a_report_has_the_options_of_its_run_in_what_it_advises(name: str) -> None:
    run = RunOptions(env="prod")
    problem = error("gone", "it is gone", help=f"run `{RETRY}`", advice=(RETRY,))
    format, of_plan = find_formats()[name], PlanReport(plan=PLAN, diagnostics=(problem,))
    for report in (REPORTS["failure"], of_plan, REPORTS["apply"]):
        if format.can_show(report.kind):
            assert report is REPORTS["apply"] or "--env" not in format.render(report)
            text = format.render(report.advised(run))
            assert "--env prod" in text or '"--env",' in text


def test_a_text_for_a_file_holds_the_plan_the_results_and_the_diagnostics() -> None:
    text = find_formats()["text"].render(REPORTS["apply"])
    assert text.index("Plan: ") < text.index("Not converged: ") < text.index("error[volume-shrink]")


def test_markdown_says_first_that_nothing_was_changed() -> None:
    render = find_formats()["markdown"].render
    refused = render(ApplyReport(plan=PLAN, ended="refused"))
    assert refused.startswith("<code>prod</code> **Refused; nothing was changed.")
    declined = render(ApplyReport(plan=PLAN, ended="declined"))
    assert declined.startswith("<code>prod</code> **Not applied; nothing was changed.")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_escaped_as_the_format_does(encoding: str) -> None:
    text = "Größe 資 😀"
    report = Failure(message=text)
    readers = {
        "json": lambda shown: json.loads(shown)["diagnostics"][0]["message"],
        "markdown": html.unescape,
    }
    for name, read in readers.items():
        found = find_formats()[name]
        shown = found.printable(found.render(report), encoding)
        assert text in read(shown.encode(encoding).decode(encoding))


@pytest.mark.parametrize("name", formats_for("plan"))
def test_every_format_is_printed_where_the_encoding_is_narrow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", printed)
    assert run(["plan", "資", "-o", name]) == 1
    printed.flush()


def test_a_format_comes_without_the_others() -> None:
    script = (
        "import sys; from reconciler.reports.formats import find_format; find_format('text');"
        "print([name for name in sys.modules if name.startswith('reconciler.reports.formats.')])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == "['reconciler.reports.formats.text']\n"
    assert find_format("none") is None
