"""Reports read back from their JSON show the same; what is no such JSON is refused with a sentence."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.planning.drift import UNMANAGED
from reconciler.rehearsal.results import FAULTS, Assumption, Cell, Rehearsal, Unrehearsed
from reconciler.reports.documents import read_report
from reconciler.reports.formats import json as as_json
from reconciler.reports.formats.markdown import FORMAT
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report, ValidationReport
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, OWED, PLAN, RESULTS
from tests.reports.reports import HOST, forecast_of, reports_of, texts

KNOWN = replace(
    PLAN, context=replace(PLAN.context, revision="3f2a9c1d" * 5), diagnostics=DIAGNOSTICS, outside=3
)
ADDRESS = Address("Volume", "data", "shop")
NOTED = error("a-code", "one", Span("a.yaml", 3, 1, 4), notes=("first", "second"), help="two\nlines")
ASIDE = (
    Change(
        ADDRESS,
        Action.NOOP,
        (FieldChange("a", 1, 2, Effect.GROW), FieldChange("b", None, "x", Effect.IN_PLACE)),
        reason=UNMANAGED,
        id="vol_1",
    ),
)
REHEARSED = Rehearsal(
    ("one",),
    7,
    (
        Cell("", "none", "converged", duration_s=3.0),
        *(
            Cell("one", fault, "decision", (Owed(ADDRESS, "restart", "x", "owed"),), question="which?")
            for fault in FAULTS[1:]
        ),
    ),
    ("it differs",),
    (Unrehearsed(ADDRESS, "no twin"),),
    (Assumption("switch", "an unattached volume is reported as unattached"),),
)
REPORTS: dict[str, Report] = {
    "plan": PlanReport(plan=KNOWN, diagnostics=DIAGNOSTICS),
    "no changes": PlanReport(plan=EMPTY, diagnostics=()),
    "notes": PlanReport(plan=replace(EMPTY, diagnostics=(NOTED,)), diagnostics=(NOTED,)),
    "rehearsal": PlanReport(plan=KNOWN, rehearsal=REHEARSED, diagnostics=DIAGNOSTICS),
    "forecast": PlanReport(plan=KNOWN, forecast=forecast_of("later"), diagnostics=DIAGNOSTICS),
    "drift": DriftReport(plan=DRIFT, unmanaged=ASIDE, only_new=True),
    "no drift": DriftReport(plan=EMPTY, unmanaged=ASIDE),
    "applied": ApplyReport(plan=KNOWN, results=RESULTS, owed=OWED, head="abc", diagnostics=DIAGNOSTICS),
    "refused": ApplyReport(plan=KNOWN, owed=OWED, ended="refused", diagnostics=DIAGNOSTICS),
    "declined": ApplyReport(plan=KNOWN, owed=OWED, ended="declined", diagnostics=DIAGNOSTICS),
    "valid": ValidationReport(resources=3, files=("a.yaml", "b.yaml"), environments=("base", "prod")),
    "not valid": ValidationReport(
        resources=1,
        files=("a.yaml",),
        changed=("Volume/shop/data",),
        dependants=("Secret/shop/A",),
        diagnostics=DIAGNOSTICS,
    ),
    "failure": Failure(message="no state", help="make one\nby hand"),
    "interrupted": Failure(message="interrupted", interrupted=True),
}


def written(report: Report) -> bytes:
    return as_json.render(report).encode()


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_read_back_shows_the_same(name: str) -> None:
    report = replace(REPORTS[name], links=HOST)
    found = replace(read_report("plan.json", written(report)), links=HOST)
    if isinstance(report, ValidationReport):
        report = replace(report, files=())
    assert FORMAT.render(found) == FORMAT.render(report)


@pytest.mark.parametrize(
    ("diagnostics", "verdict"),
    [((), "Valid."), (DIAGNOSTICS[1:], "Valid."), (DIAGNOSTICS, "Not valid: 1 error, 1 warning.")],
)
def test_diagnostics_alone_say_whether_the_manifests_are_valid(
    diagnostics: tuple[Diagnostic, ...], verdict: str
) -> None:
    report = ValidationReport(resources=3, files=("a.yaml",), diagnostics=diagnostics)
    assert FORMAT.render(read_report("x", written(report))).startswith(f"**{verdict}**")


def test_what_failed_for_several_reasons_shows_them() -> None:
    report = Failure(message="the manifests hold errors", diagnostics=DIAGNOSTICS)
    assert "volume-shrink" in FORMAT.render(read_report("x", written(report)))


@given(texts)
def test_no_text_is_lost_or_refused(text: str) -> None:
    """But names that no address can have, and revisions that git has none of: the program makes none."""
    for report in reports_of(text):
        found, why = read_or_not(written(report))
        assert "context.revision" in why or "address" in why or (found and "<code>" in FORMAT.render(found))


def read_or_not(text: bytes) -> tuple[Report | None, str]:
    """The report, or why it is refused."""
    try:
        return read_report("plan.json", text), ""
    except ReconcilerError as refused:
        return None, refused.message


def mutated(text: str, at: random.Random) -> bytes:
    """The JSON with one value, key or piece of text exchanged."""
    document = json.loads(text)
    spots: list[tuple[Any, Any]] = []
    ahead = [document]
    while ahead:
        each = ahead.pop()
        keys = each.keys() if isinstance(each, dict) else range(len(each))
        spots += [(each, key) for key in keys]
        ahead += [each[key] for key in keys if isinstance(each[key], dict | list)]
    place, key = at.choice(spots)
    if isinstance(place, dict) and at.random() < 0.3:
        del place[key]
    else:
        numbers: tuple[Any, ...] = (None, -1, 10**5000, 1e400, True)
        place[key] = at.choice((*numbers, "", "x" * 10_000, [], {}, [[]], "\u202e<!-- -->"))
    return json.dumps(document).encode() if at.random() < 0.9 else text[: at.randrange(len(text))].encode()


@given(st.integers(0, 2**32))
def test_json_that_was_tampered_with_is_refused_in_a_sentence_or_shown(seed: int) -> None:
    at = random.Random(seed)
    with_limit = written(at.choice(list(REPORTS.values()))).decode()
    try:
        text = mutated(with_limit, at)
    except ValueError:  # this Python writes no number of 5,000 digits
        return
    found, why = read_or_not(text)
    assert why.startswith("plan.json is") if found is None else FORMAT.render(found)
    assert len(why) < 300


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is not JSON, or not all of it"),
        (b"Plan: 1 to create.\n", "is not JSON, or not all of it"),
        (b'{"format_version": "1", "changes": [', "is not JSON, or not all of it"),
        (b"[]", "is JSON, but not a report"),
        (b'{"hello": 1}', "is JSON, but not a report"),
        (b'{"version": "2.1.0", "runs": []}', "not a report of this program"),
        (b'{"format_version": "2", "changes": []}', "is a report of another version"),
        (b'{"format_version": 1, "changes": []}', "is a report of another version"),
        (b'{"format_version": "1", "records": []}', "is not a report of validate, plan, drift or apply"),
        (b'{"format_version": "1", "changes": []}', "`context` is missing or wrong"),
        (b'{"format_version": "1", "changes": [], "steps": [], "diagnostics": []}', "is missing or wrong"),
        (b'{"format_version": "1", "diagnostics": [{"code": 7}]}', "`diagnostics.0.code`"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_report_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(ReconcilerError, match=says.replace("(", r"\(")) as refused:
        read_report("plan.json", text)
    assert refused.value.help


@pytest.mark.parametrize("digits", [4_300, 4_301, 50_000])
def test_a_number_that_cannot_be_written_again_is_refused(digits: int) -> None:
    text = written(REPORTS["plan"]).replace(b'"before": 10', b'"before": ' + b"9" * digits, 1)
    try:
        found = read_report("plan.json", text)
    except ReconcilerError:
        assert digits > 4_300
    else:
        assert "9" * digits in FORMAT.render(found)


@pytest.mark.parametrize(
    ("name", "part", "key", "value", "says"),
    [("plan", "summary", "noop", 0, "summary"), ("rehearsal", "rehearsal", "cells", [], r"rehearsal\.cells")],
    ids=["a summary that hides changes", "a rehearsal without its clean run"],
)
def test_what_contradicts_itself_is_refused(name: str, part: str, key: str, value: Any, says: str) -> None:
    document = json.loads(written(REPORTS[name]))
    document[part][key] = value
    with pytest.raises(ReconcilerError, match=says):
        read_report("plan.json", json.dumps(document).encode())


def test_the_counts_are_those_of_the_changes_whatever_the_summary_says() -> None:
    document = json.loads(written(REPORTS["plan"]))
    document["summary"]["delete"] = 0
    assert "1 to delete" in FORMAT.render(read_report("plan.json", json.dumps(document).encode()))
