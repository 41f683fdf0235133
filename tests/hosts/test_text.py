"""What a comment says: within the host's limit, the verdict whole, and nothing that could act in it."""

import re

import pytest
from hypothesis import given
from msgspec.structs import replace

from reconciler.core.model import Action, Address, Change
from reconciler.hosts.host import GitHub, GitLab
from reconciler.hosts.publish import (
    Run,
    comment_text,
    is_of,
    marked,
    run_of,
    said_of,
    state_of,
    superseded,
    text_of,
)
from reconciler.reports.documents import read_report
from reconciler.reports.formats.json import FORMAT as JSON
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    PlanReport,
    Report,
    ValidationReport,
)
from tests.contexts import NOW
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, OWED, PLAN, RESULTS
from tests.reports.reports import HOSTILE, reports_of, texts
from tests.reports.test_markdown import TAG, shape_of

URL = "https://ci.example/runs/7"
RUN = Run("a" * 40, NOW, "0123")


def large(changes: int = 4_000) -> Report:
    made = tuple(
        Change(Address("Volume", f"data-{at}", f"app-{at % 40}"), Action.UPDATE) for at in range(changes)
    )
    return PlanReport(plan=replace(PLAN, changes=(*PLAN.changes, *made)))


@pytest.mark.parametrize(("most", "limit"), [(GitHub.most, 65_536), (GitLab.most, 1_000_000)])
def test_a_long_report_is_cut_to_what_the_host_takes(most: int, limit: int) -> None:
    report = large(16_000)
    room = most - len(marked("prod", RUN, "").encode())
    body = marked("prod", RUN, comment_text([report], URL, room))
    assert len(body.encode()) <= most
    assert len(superseded("prod", body)) <= limit
    assert body.endswith(f'<a href="{URL}">The full report</a>\n')
    assert re.search(r"\d+ parts? of this report left out", body)
    assert body.count("<details") == body.count("</details>")
    first = comment_text([large(0)], URL, 10**9).splitlines()[0]
    assert comment_text([report], URL, room).splitlines()[0].startswith(first.split("**")[0])


@pytest.mark.parametrize("at", range(3))
def test_the_verdicts_of_all_reports_are_there_however_long_one_is(at: int) -> None:
    reports: list[Report] = [ValidationReport(diagnostics=DIAGNOSTICS), DriftReport(plan=DRIFT)]
    reports.insert(at, large(400))
    for most in range(20_000, 24_000, 191):
        text = comment_text(reports, URL, most)
        assert len(text.encode()) <= most
        assert "**Not valid: 1 error, 1 warning.**" in text
        assert "**Plan: " in text
        assert "**Drift in " in text


def test_a_failure_that_talks_for_ever_is_cut() -> None:
    text = comment_text([Failure(message="|" * 100_000, help="<!-- -->\n" * 50_000)], "", 65_000)
    assert len(text.encode()) <= 65_000


def test_what_many_have_to_approve_leaves_room() -> None:
    made = tuple(Change(Address("Volume", f"{'x' * 200}{at}", "app"), Action.DELETE) for at in range(10_000))
    text = comment_text([PlanReport(plan=replace(EMPTY, changes=made))], URL, 65_000)
    assert len(text.encode()) <= 65_000
    assert "and 9980 more" in text


@given(texts)
def test_no_text_of_a_report_acts_in_a_comment(text: str) -> None:
    """No mark of ours, no mention, no tag, no command of GitLab (`/merge` at the beginning of a line)."""
    for report in reports_of(f"{text} /merge"):
        body = marked("prod", RUN, comment_text([report], URL, 65_000))
        assert len(re.findall("<!--", body)) == 2
        assert "@" not in re.sub(r'href="[^"]*"', "", body)
        assert not re.search(r"^\s*/", body, re.MULTILINE)
        tags = {tag.split()[0].strip("<>/") for tag in TAG.findall(body) if not tag.startswith("<!--")}
        assert tags <= {"a", "br", "code", "details", "summary"}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_json_brings_back_is_as_harmless(text: str) -> None:
    name = re.sub(r"[/\[\]]", "_", text)
    change = Change(Address("Volume", name, f"app{name}"), Action.UPDATE, reason=text, id=text)
    plain = Change(Address("Volume", "word", "appword"), Action.UPDATE, reason="word", id="word")
    bodies = []
    for each in (change, plain):
        report = PlanReport(plan=replace(EMPTY, changes=(each,)))
        again = read_report("x", JSON.render(report).encode())
        bodies.append(shape_of(marked("prod", RUN, comment_text([again], URL, 65_000))))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "", "x", 'https://a.example/"><script>', "http://u:p@a.example"]
)
def test_only_an_address_is_linked_to(url: str) -> None:
    text = comment_text([PlanReport(plan=EMPTY)], url, 65_000)
    assert "<script" not in text
    assert ("The full report" in text) == url.startswith("https://a")


def test_a_mark_is_read_back() -> None:
    body = marked("prod", RUN, "text\n")
    assert is_of("prod", body)
    assert not is_of("pro", body)
    assert not is_of("prod", f" {body}")
    assert run_of(body) == RUN
    assert run_of(body.replace("\n", "\r\n").strip()) == RUN
    assert text_of(body.replace("\n", "\r\n").strip()) == "text"
    assert run_of("<!-- reconcile:prod -->\nsomething").commit == ""
    assert run_of("<!-- reconcile:prod -->\n<!-- reconcile-run: commit=- at=x nonce=1 -->").nonce == ""
    assert not is_of("prod", superseded("prod", body))


@pytest.mark.parametrize(
    ("reports", "state", "said"),
    [
        ([PlanReport(plan=EMPTY)], "success", "No changes: 3 resources are as declared."),
        ([PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS)], "failure", "Plan: 1 to delete"),
        ([DriftReport(plan=DRIFT)], "failure", "Drift in"),
        ([DriftReport(plan=EMPTY)], "success", "No drift"),
        ([Failure(message="no\nstate")], "failure", "no state"),
        ([ValidationReport(diagnostics=DIAGNOSTICS)], "failure", "Not valid: 1 error, 1 warning."),
        ([ValidationReport(diagnostics=DIAGNOSTICS[1:])], "success", "Valid."),
        ([ApplyReport(plan=PLAN, results=RESULTS, owed=OWED)], "failure", "Not converged"),
        ([ApplyReport(plan=EMPTY, results=RESULTS[:1])], "success", "Applied: 1 done."),
        ([ApplyReport(plan=EMPTY, ended="refused")], "failure", "Refused"),
        ([PlanReport(plan=EMPTY), DriftReport(plan=DRIFT)], "failure", "Drift in"),
    ],
)
def test_a_status_says_the_gravest(reports: list[Report], state: str, said: str) -> None:
    assert state_of(reports) == state
    assert said_of(reports, 140).startswith(said)
    assert len(said_of(reports, 20)) <= 20


def test_what_is_under_way_is_pending() -> None:
    pending = replace(RESULTS[0], outcome="pending")
    assert state_of([ApplyReport(plan=PLAN, results=(pending,))]) == "pending"
