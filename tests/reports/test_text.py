"""Reports for people, as recorded in the text files beside this test."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.diagnostics import error, warning
from reconciler.core.model import Action
from reconciler.core.steps import Plan
from reconciler.reports import verdict
from reconciler.reports.formats import markdown
from reconciler.reports.formats.text import FORMAT, render_drift, render_plan, render_results
from reconciler.reports.report import ApplyReport, DriftReport, PlanReport
from tests.contexts import context
from tests.reports.plans import CHANGES, DRIFT, EMPTY, OWED, PLAN, RESULTS, volume

HERE = Path(__file__).parent
NOTHING_RETAINED = replace(
    PLAN, changes=tuple(change for change in CHANGES if change.action is not Action.RETAIN)
)

APPLIED = ApplyReport(plan=EMPTY, results=RESULTS, owed=OWED)


def drifted(plan: Plan, *, only_new: bool = False) -> str:
    return render_drift(DriftReport(plan=plan, only_new=only_new))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a_plan_with_every_action", render_plan(PLAN)),
        ("drift_in_two_objects", drifted(DRIFT)),
        ("results_with_every_outcome", render_results(APPLIED)),
    ],
)
def test_a_report_reads_as_recorded(name: str, text: str) -> None:
    assert text == HERE.joinpath(f"{name}.txt").read_text(encoding="utf-8")


def test_the_plan_under_test_has_every_action() -> None:
    assert {change.action for change in PLAN.changes} == set(Action)


def test_a_plan_without_changes_is_one_line() -> None:
    assert render_plan(EMPTY) == "No changes: 3 resources are as declared.\n"


def test_a_plan_that_could_not_see_everything_does_not_say_that_all_is_as_declared() -> None:
    problem = error("secret-source", "source not readable here")
    assert render_plan(replace(EMPTY, diagnostics=(problem,))) == "Plan incomplete: see the errors.\n"
    assert drifted(replace(EMPTY, diagnostics=(problem,))) == "Drift incomplete: see the errors.\n"
    hint = warning("secret-source", "source not readable here")
    assert render_plan(replace(EMPTY, diagnostics=(hint,))) == (
        "No changes: 3 resources are as declared; see the warnings.\n"
    )


def test_no_drift_is_one_line() -> None:
    assert drifted(EMPTY) == "No drift in 3 recorded objects.\n"


def test_a_run_without_steps_wrote_records_only() -> None:
    assert render_results(ApplyReport(plan=EMPTY)) == "Applied: no calls were needed; records updated.\n"


@pytest.mark.parametrize(
    "text", [render_plan(PLAN), render_plan(EMPTY), drifted(DRIFT), render_results(APPLIED)]
)
def test_a_report_ends_with_one_newline_and_no_line_with_a_space(text: str) -> None:
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_every_address_of_a_plan_is_shown_uncut() -> None:
    text = render_plan(PLAN, unchanged=())
    assert [str(change.address) for change in PLAN.changes if str(change.address) not in text] == []


def test_the_impact_of_an_adoption_that_touches_its_object_is_said() -> None:
    extended = next(change for change in CHANGES if change.action is Action.EXTEND)
    adopted = replace(extended, action=Action.ADOPT, also=(Action.EXTEND, Action.UPDATE))
    text = render_plan(replace(EMPTY, changes=(adopted,)))
    assert text.startswith("Plan: 1 to adopt, 1 to extend, 1 to update; 3 unchanged.\n")
    assert ": adopt, impact: restart\n" in text


def test_what_left_the_manifests_before_is_counted_until_somebody_asks() -> None:
    text = render_plan(PLAN)
    assert "kept-for-long" not in text
    assert text.endswith("2 retained, 1 refused; 4 unchanged, 1 retained as before.\n")
    asked = render_plan(PLAN, unchanged=(volume("same"),))
    assert "  o Volume/shop/kept-for-long: retained  # left the manifests; kept on the platform\n" in asked
    assert "    Volume/shop/same: unchanged\n" in asked
    assert asked.splitlines()[-1] == text.splitlines()[-1]


def test_what_leaves_the_manifests_now_and_what_waits_for_a_person_is_named() -> None:
    text = render_plan(PLAN)
    assert "  o Volume/shop/kept (vol_7): retained" in text
    assert "`reconcile state forget Volume/shop/to-delete-by-hand`" in text


def test_a_plan_that_only_retains_as_before_is_one_line() -> None:
    before = tuple(change for change in CHANGES if change.address == volume("kept-for-long"))
    assert len(before) == 1
    assert render_plan(replace(EMPTY, changes=before)) == (
        "No changes: 3 resources are as declared, 1 retained as before.\n"
    )


def first_line(**known: Any) -> str:
    about = replace(context(), **known)
    return FORMAT.render(PlanReport(plan=replace(EMPTY, context=about))).splitlines()[0]


def test_the_first_line_says_what_a_report_is_about() -> None:
    line = first_line(platform="https://api.example.com")
    assert line == "prod: https://api.example.com, sqlite:.reconcile/prod/state.db, 3f2a9c1d-dirty"
    assert len(line) < 80
    assert first_line(dirty=False).endswith(", 3f2a9c1d")
    assert first_line(revision=None, dirty=None).endswith(", no revision")
    assert first_line(platform=None).startswith("prod: no platform, ")
    assert first_line(state="sqlite:\x1b[31mred").count("\\x1b") == 1


def test_the_first_line_is_shown_once_where_the_plan_was_shown() -> None:
    report = ApplyReport(plan=EMPTY, results=RESULTS[:1])
    about = FORMAT.render(report).splitlines()[0]
    assert about.startswith("prod: ")
    assert about not in FORMAT.render(replace(report, plan_shown=True))


def test_one_object_is_counted_in_the_singular() -> None:
    one = replace(EMPTY, unchanged=1)
    assert render_plan(one) == "No changes: 1 resource is as declared.\n"
    assert drifted(one) == "No drift in 1 recorded object.\n"
    assert drifted(one, only_new=True) == "No new drift in 1 recorded object.\n"
    assert drifted(replace(DRIFT, unchanged=0, changes=DRIFT.changes[:1])).startswith(
        "Drift in 1 of 1 recorded object.\n"
    )
    assert verdict.of_plan(one) == "No changes: 1 resource is as declared."


@pytest.mark.parametrize("plan", [NOTHING_RETAINED, EMPTY, replace(EMPTY, steps=PLAN.steps)])
def test_markdown_begins_with_the_verdict_of_the_text(plan: Plan) -> None:
    verdict_line = render_plan(plan).splitlines()[0]
    assert markdown.render(PlanReport(plan=plan)).startswith(f"<code>prod</code> **{verdict_line}**")
