"""Reports with any text wherever a manifest, the platform or a provider has a say."""

from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.diagnostics import Span, error
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Impact, Owed
from reconciler.core.steps import Call, Plan, Result, Step
from reconciler.rehearsal.results import CALL_FAULTS, Assumption, Cell, Forecast, Item, Rehearsal, Unrehearsed
from reconciler.reports.links import Links
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    PlanReport,
    Report,
    ValidationReport,
)
from tests.contexts import context
from tests.reports.plans import NOW

ADDRESS = Address("Volume", "data", "shop")
HOST = Links("infra", "https://git.example/shop/blob/{revision}/{path}#L{line}", "3f2a9c1d")
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
    fields = (FieldChange(text, text, {text: [text]}, Effect.GROW),)
    elsewhere = Address("Volume", text, f"z{text}")  # the last app, whatever the text
    change = Change(ADDRESS, Action.UPDATE, fields, reason=text, id=text)
    hard = Change(elsewhere, Action.DELETE, fields, Impact.DATA_LOSS, text, text)
    other = Change(elsewhere._replace(ordinal=1), Action.UPDATE, fields, reason=text, id=text)
    step = Step("id", ADDRESS, Call("PUT", text, {text: text}, service=text))
    owed = Owed(ADDRESS, text, text, "owed")
    file = f"x{text}".replace("..", ". .")  # in the checkout, so that there is a link
    problem = error("code", text, Span(file, 1, 1, 2), label=text, notes=(text,), help=text)
    about = replace(context(at=NOW), environment=text, state=f"sqlite:{text}", revision=text)
    plan = Plan("p", about, (change, hard, other), (step,), (), (), (owed,), (problem,))
    result = Result(ADDRESS, text, "failed", text, text, text)
    reports: tuple[Report, ...] = (
        PlanReport(
            plan=plan, diagnostics=(problem,), rehearsal=rehearsal_of(text), forecast=forecast_of(text)
        ),
        DriftReport(plan=plan, unmanaged=(other,), note=text, diagnostics=(problem,)),
        ApplyReport(plan=plan, results=(result,), owed=(owed,), head=text, diagnostics=(problem,)),
        ValidationReport(
            resources=1, files=(text,), changed=(text,), dependants=(text,), diagnostics=(problem,)
        ),
        Failure(message=text, help=text, diagnostics=(problem,)),
    )
    declared = {each.address: Span(file, 2, 1, 2) for each in plan.changes}
    return tuple(replace(each, links=HOST, declared=declared) for each in reports)


def rehearsal_of(text: str) -> Rehearsal:
    """Each end, with `text` wherever the plan or the twin has a say."""
    owed = (Owed(ADDRESS, text, text, "unknown"),)
    struck = {fault: Cell(text, fault, "converged") for fault in CALL_FAULTS}
    struck["slow"] = Cell(text, "slow", "pending", owed)
    for fault in ("lost_after", "killed"):
        struck[fault] = Cell(text, fault, "decision", owed, question=text)
    struck["error_after"] = Cell(text, "error_after", "failed", error=text)
    clean = Cell("", "none", "failed", error=text)
    left = (Unrehearsed(Address("Volume", text, text), text),)
    assumed = (Assumption(text, text),)
    return Rehearsal((text,), 2, (clean, *struck.values()), (text,), left, assumed)


def forecast_of(text: str) -> Forecast:
    items = (Item(ADDRESS, text, NOW), Item(Address("Volume", text, text), text, None))
    return Forecast(NOW, items, after_apply=True)


@cache
def harmless(structure: Callable[[Report], object]) -> tuple[object, ...]:
    """The structure of each report with a word for a text."""
    return tuple(map(structure, reports_of("word")))
