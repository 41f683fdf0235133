"""Markdown: the verdict first, and no text that came from elsewhere leaves its place."""

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import TO_APPROVE, Action, Address, Change
from reconciler.core.steps import Call, Step
from reconciler.reports.escape import visible
from reconciler.reports.formats.markdown import FORMAT, MOST_OPEN, code, render_within
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    PlanReport,
    Report,
    ValidationReport,
)
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, OWED, PLAN, RESULTS
from tests.reports.reports import ADDRESS, HOST, HOSTILE, harmless, reports_of, texts

HERE = Path(__file__).parent
TAG = re.compile(r"<[^>]*>?")
# Whatever the name of the file, all that a link holds is an address at this host.
LINK = re.compile(r'<a href="https://git\.example/shop/blob/[\w%.~-]+/[\w%./~-]+#L[12]">')
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

ABOUT = "<code>prod</code>"


def shape(report: Report) -> list[str]:
    return shape_of(FORMAT.render(report))


def shape_of(text: str) -> list[str]:
    """What a Markdown parser sees: kinds of blocks and inline parts, and HTML tags; no text."""
    found = []
    for token in PARSER.parse(text):
        found.append(token.type)
        found += TAG.findall(token.content) if token.type == "html_block" else []
        found += [
            LINK.sub("<a>", child.content) if child.type == "html_inline" else child.type
            for child in token.children or ()
            if child.type not in ("text", "text_special", "entity")
        ]
    return found


@given(texts)
def test_no_text_leaves_its_place(text: str) -> None:
    text = " ".join(text.splitlines()).strip()  # several lines are several pieces of code: see below
    if not visible(text).strip():
        return
    assert tuple(map(shape, reports_of(text))) == harmless(shape)


@given(texts)
def test_code_holds_the_text_and_nothing_that_a_host_makes_something_of(text: str) -> None:
    written = code(text)
    if not visible(text).strip():
        assert written == ""
        return
    assert "\n" not in written
    inner = written.removeprefix("<code>").removesuffix("</code>")
    assert html.unescape(inner) == visible(text)
    assert not re.search(r"[`|<>@\[\]*_~\\:.!$\"']|#(?!\d+;)|&(?!#\d+;)", inner)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_has_several_lines_makes_no_block(text: str) -> None:
    for report in reports_of(text):
        blocks = {token.type for token in PARSER.parse(FORMAT.render(report))}
        assert not {"heading_open", "fence", "code_block", "hr", "blockquote_open"} & blocks


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("a_plan", PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS)),
        ("no_changes", PlanReport(plan=EMPTY)),
        ("drift", DriftReport(plan=DRIFT)),
        ("results", ApplyReport(plan=PLAN, results=RESULTS, owed=OWED)),
        ("manifests", ValidationReport(resources=3, files=("a.yaml",), diagnostics=DIAGNOSTICS)),
    ],
)
def test_a_report_reads_as_recorded(name: str, report: Report) -> None:
    assert FORMAT.render(report) == HERE.joinpath(f"markdown_{name}.md").read_text(encoding="utf-8")


def test_the_verdict_comes_after_what_the_report_is_about() -> None:
    problem: Diagnostic = error("secret-source", "source not readable here")
    partial = PlanReport(plan=replace(EMPTY, diagnostics=(problem,)), diagnostics=(problem,))
    assert FORMAT.render(partial).splitlines()[0] == f"{ABOUT} **Plan incomplete: see the errors.**"
    drift = FORMAT.render(DriftReport(plan=EMPTY))
    assert drift.splitlines()[0] == f"{ABOUT} **No drift in 3 recorded objects.**"


def test_the_verdict_says_what_hurts_and_what_has_to_be_approved() -> None:
    copy = Address("PostgresCluster", "copy")
    made = Change(copy, Action.CREATE, reason=f"{TO_APPROVE}nothing shows it")
    plan = replace(PLAN, changes=(*PLAN.changes, made))
    first = html.unescape(FORMAT.render(PlanReport(plan=plan)).splitlines()[0])
    assert "Impact: data loss 1, downtime 2, restart 2." in first
    assert "<code>--approve-delete Volume/shop/unwanted</code>" in first
    assert "<code>--approve-create PostgresCluster/copy@lineage-</code>" in first
    quiet = replace(PLAN, changes=PLAN.changes[:3], steps=())
    assert "Impact: none" in FORMAT.render(PlanReport(plan=quiet)).splitlines()[0]


def test_the_verdict_stays_short_however_much_has_to_be_approved() -> None:
    changes = tuple(Change(ADDRESS._replace(ordinal=at), Action.DELETE) for at in range(10_000))
    first = FORMAT.render(PlanReport(plan=replace(EMPTY, changes=changes))).splitlines()[0]
    assert len(first) < 5_000
    assert "and 9980 more" in first


def test_what_a_call_deletes_needs_approval_whatever_its_change_says() -> None:
    plan = replace(EMPTY, steps=(Step("id", ADDRESS, Call("DELETE", "/v1/apps/shop/volumes/vol_1")),))
    assert "--approve-delete" in html.unescape(FORMAT.render(PlanReport(plan=plan)))


def test_what_destroys_comes_before_what_is_folded() -> None:
    text = FORMAT.render(PlanReport(plan=PLAN))
    assert text.index("unwanted") < text.index("idle") < text.index("<details") < text.index("shop/logs")


def test_many_changes_are_folded() -> None:
    changes = tuple(Change(ADDRESS._replace(ordinal=at), Action.UPDATE) for at in range(MOST_OPEN + 1))
    assert "<details open>" in FORMAT.render(PlanReport(plan=replace(EMPTY, changes=changes[1:])))
    assert "<details open>" not in FORMAT.render(PlanReport(plan=replace(EMPTY, changes=changes)))


def test_places_are_links_where_the_host_is_known() -> None:
    declared = {ADDRESS: Span("manifests/a b.yaml", 3, 1, 2)}
    change = Change(ADDRESS, Action.UPDATE)
    report = PlanReport(plan=replace(EMPTY, changes=(change,)), declared=declared, diagnostics=DIAGNOSTICS)
    assert "<a " not in FORMAT.render(report)
    text = FORMAT.render(replace(report, links=HOST))
    begins = f"https://git.example/shop/blob/{EMPTY.context.revision}/infra/manifests"
    assert f'<a href="{begins}/a%20b.yaml#L3"><code>Volume/shop/data</code></a>' in text
    assert f'<a href="{begins}/orders.yaml#L7">' in text


def test_a_report_is_cut_where_it_is_too_long_and_its_verdict_never() -> None:
    changes = tuple(
        Change(Address("Volume", f"data-{at}", f"app-{at % 40}"), Action.UPDATE) for at in range(400)
    )
    report = PlanReport(plan=replace(PLAN, changes=(*PLAN.changes, *changes)), diagnostics=DIAGNOSTICS)
    whole = FORMAT.render(report)
    assert render_within(report, len(whole.encode()) + 200) == whole
    for most in (20_000, 8_000, 5_000, 1_500):
        cut = render_within(report, most)
        assert len(cut.encode()) <= most
        assert cut.splitlines()[0] == whole.splitlines()[0]
        assert re.search(r"\*\d+ parts of this report left out", cut)
        assert set(PARSER.parse(cut)[0].type) == set(PARSER.parse(whole)[0].type)
    assert "volume-shrink" in render_within(report, 8_000)
    assert render_within(report, 1).splitlines()[0] == whole.splitlines()[0]
