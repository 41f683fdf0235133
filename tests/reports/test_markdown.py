"""Markdown: the verdict first, and no text that came from elsewhere leaves its place."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.core.steps import Call, Plan, Result, Step
from reconciler.reports.formats.markdown import FORMAT, code
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report
from reconciler.reports.visible import visible
from tests.contexts import context
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, NOW, OWED, PLAN, RESULTS

HERE = Path(__file__).parent
ADDRESS = Address("Volume", "data", "shop")
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

HOSTILE = (
    "`", "``", "```\n", "|", "\\|", "\\", "@everyone", "@org/team", "#1", "owner/repo#1", "!1", "<!--", "-->",
    "</code>", "<code>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:x)",
    "![a](https://evil.test/x)", "https://evil.test", "www.evil.test", "a@evil.test", "**", "__", "~~",
    "***\n", "\n\n# big", "\n- item", "\n::error::x", "&lt;", "&#64;", ":rocket:", "</details>", "\u202eabc",
    "\u2028", "0123456789abcdef0123456789abcdef01234567", "$x$", "- [ ] task", "]]", "{{",
    "| a | b |\n|---|---|",
)  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4).map("".join), st.text(min_size=1, max_size=30)
)


def reports_of(text: str) -> tuple[Report, ...]:
    """Reports with `text` wherever a manifest, the platform or a provider has a say."""
    change = Change(
        ADDRESS, Action.UPDATE, (FieldChange(text, text, {text: [text]}, Effect.GROW),), reason=text, id=text
    )
    step = Step("id", ADDRESS, Call("PUT", text, {text: text}, service=text))
    owed = Owed(ADDRESS, text, text, "owed")
    problem = error("code", text, Span(text, 1, 1, 2), label=text, notes=(text,), help=text)
    plan = Plan(
        "p", replace(context(at=NOW), state=f"sqlite:{text}"), (change,), (step,), (), (), (owed,), (problem,)
    )
    result = Result(ADDRESS, text, "failed", text, text, text)
    return (
        PlanReport(plan=plan, diagnostics=(problem,)),
        DriftReport(plan=plan, note=text, diagnostics=(problem,)),
        ApplyReport(plan=plan, results=(result,), owed=(owed,), diagnostics=(problem,)),
        Failure(message=text, help=text, diagnostics=(problem,)),
    )


def structure(text: str) -> list[str]:
    """What a Markdown parser sees: kinds of blocks and inline parts, and HTML tags; no text."""
    found = []
    for token in PARSER.parse(text):
        found.append(token.type)
        found += [
            child.content if child.type == "html_inline" else child.type
            for child in token.children or ()
            if child.type not in ("text", "text_special", "entity")
        ]
    return found


@given(texts)
def test_no_text_leaves_its_place(text: str) -> None:
    text = " ".join(text.splitlines()).strip()  # several lines are several pieces of code: see below
    if not visible(text).strip():
        return
    for hostile, harmless in zip(reports_of(text), reports_of("word"), strict=True):
        assert structure(FORMAT.render(hostile)) == structure(FORMAT.render(harmless))


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
        assert not {"heading_open", "fence", "code_block", "html_block", "hr", "blockquote_open"} & blocks


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("a_plan", PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS)),
        ("no_changes", PlanReport(plan=EMPTY)),
        ("drift", DriftReport(plan=DRIFT)),
        ("results", ApplyReport(plan=PLAN, results=RESULTS, owed=OWED)),
    ],
)
def test_a_report_reads_as_recorded(name: str, report: Report) -> None:
    assert FORMAT.render(report) == HERE.joinpath(f"markdown_{name}.md").read_text(encoding="utf-8")


def test_the_verdict_comes_after_what_the_report_is_about() -> None:
    problem: Diagnostic = error("secret-source", "source not readable here")
    partial = PlanReport(plan=replace(EMPTY, diagnostics=(problem,)), diagnostics=(problem,))
    assert FORMAT.render(partial).splitlines()[2] == "**Plan incomplete: see the errors.**"
    assert (
        FORMAT.render(DriftReport(plan=EMPTY)).splitlines()[2] == "**No drift: 3 objects are as recorded.**"
    )
