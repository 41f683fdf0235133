"""Reports as one HTML file that loads nothing and runs nothing: to keep, to send and to print.

The template escapes each value and makes it visible. The policy in the head of the file allows the two style
sheets by their digests, and nothing else.
"""

from base64 import b64encode
from functools import partial
from hashlib import sha256
from importlib import resources
from typing import Any

from reconciler.core.model import Address, Change, Effect, Impact
from reconciler.core.steps import PLATFORM, Step
from reconciler.planning.graph import plan_graph
from reconciler.rehearsal.results import CALL_FAULTS
from reconciler.reports import verdict
from reconciler.reports.diagnostics import render as excerpt
from reconciler.reports.escape import in_json, numbered, template
from reconciler.reports.formats import RUNS, Format, svg
from reconciler.reports.grouping import NO_APP, is_gone, sections_of, touches
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report
from reconciler.reports.style import END_TONES, IMPACT_TONES, OUTCOME_TONES, TONES

MOST_DRAWN = 150  # steps: a larger drawing is read by nobody, and takes long to make
# The class of an action, impact, outcome, end or severity by its word. A word in two of these has one tone.
_TONES = {
    str(word): tone.name.lower()
    for tones in (TONES, IMPACT_TONES, OUTCOME_TONES, END_TONES)
    for word, tone in tones.items()
} | {"done": "new", "error": "loss", "warning": "pause"}


def render(report: Report) -> str:
    """Return the whole page."""
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    # An inline style sheet is known by the digest of its text.
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in (style, svg.style()))
    return f"{template('report.html').render(style=style, allowed=allowed, **_values(report))}\n"


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _values(report: Report) -> dict[str, Any]:
    """The names that the template uses."""
    found: dict[str, Any] = {
        "report": report,
        "about": report.about,
        "title": "Failed" if isinstance(report, Failure) else report.kind.capitalize(),
        "verdict": verdict.of_report(report),
        "words": verdict,
        "tone": partial(_tone, report),
        "tone_of": _TONES,
        "excerpt": lambda item: excerpt([item], report.read_line).splitlines(),
        "as_json": in_json,
        "no_app": NO_APP,
        "faults": CALL_FAULTS,
        "in_place": Effect.IN_PLACE,
        "platform": PLATFORM,
    }
    return found | _of_plan(report) if isinstance(report, PlanReport | DriftReport | ApplyReport) else found


def _of_plan(report: PlanReport | DriftReport | ApplyReport) -> dict[str, Any]:
    """The names for a report about a plan: its parts, and the calls by address."""
    sections, plan = sections_of(report), report.plan
    calls: dict[Address, list[Step]] = {}
    for step in sections.steps:
        calls.setdefault(step.address, []).append(step)
    changed = {change.address for change in plan.changes}
    found = {
        "about": plan.context,
        "sections": sections,
        "calls": calls,
        "others": [step for step in sections.steps if step.address not in changed],
        "is_drift": isinstance(report, DriftReport),
        "drawing": svg.render_svg(plan_graph(plan)) if 0 < len(sections.steps) <= MOST_DRAWN else "",
    }
    if not isinstance(report, DriftReport) and not sections.results:
        found |= {"impact": verdict.of_impact(plan.changes), "approvals": verdict.approvals(plan)}
    return found


def _tone(report: Report, change: Change) -> str:
    """The class for the gravest effect of a change, or for the kind of drift."""
    if isinstance(report, DriftReport):
        return "loss" if is_gone(change) else ""
    if touches(change) and change.impact is not Impact.ONLINE:
        return _TONES[change.impact]
    return _TONES.get(change.action, "")


FORMAT = Format("html", RUNS | {"forecast", "inventory"}, render, escape=numbered)
