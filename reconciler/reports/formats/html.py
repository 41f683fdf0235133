"""Reports as one HTML file that loads nothing and runs nothing: to keep, to send and to print.

Each value in the template is escaped, and what cannot be seen is spelled out (`visible`). The policy in the
file's head allows its two style sheets by their digests, and nothing else.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Address, Change, Effect, Impact
from reconciler.core.steps import PLATFORM, Step
from reconciler.planning.graph import plan_graph
from reconciler.rehearsal.matrix import CALL_FAULTS
from reconciler.reports import forecast, rehearsal, verdict
from reconciler.reports.diagnostics import render as excerpt
from reconciler.reports.formats import RUNS, Format, svg
from reconciler.reports.graph import NO_APP
from reconciler.reports.look import END_TONES, IMPACT_TONES, OUTCOME_TONES, TONES
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    PlanReport,
    Report,
    ValidationReport,
)
from reconciler.reports.sections import is_gone, sections_of, touches
from reconciler.reports.shown import in_json, owed_words
from reconciler.reports.visible import numbered, visible

if TYPE_CHECKING:
    from jinja2 import Template

MOST_DRAWN = 150  # steps: a larger drawing is read by nobody, and takes long to make
# By a word, whatever it is of: no two of them differ in their tone.
_TONES = {
    str(word): tone.name.lower()
    for tones in (TONES, IMPACT_TONES, OUTCOME_TONES, END_TONES)
    for word, tone in tones.items()
} | {"done": "new", "error": "loss", "warning": "pause"}


def render(report: Report) -> str:
    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    # An inline style sheet is known by the digest of its text.
    allowed = " ".join(f"'sha256-{_digest(each)}'" for each in (style, svg.STYLE))
    return f"{_template().render(style=style, allowed=allowed, **_values(report))}\n"


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _values(report: Report) -> dict[str, Any]:
    """What the template shows."""
    found: dict[str, Any] = {
        "report": report,
        "about": report.about,
        "diagnostics": report.diagnostics,
        "tone_of": _TONES,
        "tone": lambda change: _tone(report, change),
        "word": verdict.word,
        "lines_of": lambda item: _lines(report, item),
        "spoken": verdict.spoken,
        "as_json": in_json,
        "no_app": NO_APP,
        "owed_words": owed_words,
        "rehearsal": rehearsal,
        "forecast": forecast,
        "faults": CALL_FAULTS,
        "in_place": Effect.IN_PLACE,
        "service_of": lambda step: step.call.service if step.call.service != PLATFORM else "",
    }
    match report:
        case PlanReport() | DriftReport() | ApplyReport():
            sections = sections_of(report)
            calls = _calls(sections.steps)
            told = {change.address for change in report.plan.changes}
            found |= {
                "about": report.plan.context,
                "sections": sections,
                "calls": calls,
                "others": [step for step in sections.steps if step.address not in told],
                "is_drift": isinstance(report, DriftReport),
                "drawing": _drawing(report) if sections.steps else "",
            }
        case ValidationReport() | Failure():
            pass
        case _:
            raise TypeError(f"HTML shows no {report.kind}")
    return found | _verdict(report)


def _verdict(report: Report) -> dict[str, Any]:
    title = "Failed" if isinstance(report, Failure) else report.kind.capitalize()
    found: dict[str, Any] = {"title": title, "verdict": verdict.of_report(report)}
    match report:
        case PlanReport() | ApplyReport() if not (isinstance(report, ApplyReport) and report.results):
            impact = verdict.of_impact(report.plan.changes)
            found |= {"impact": impact, "approvals": verdict.approvals(report.plan)}
        case Failure():
            found["help"] = report.help.splitlines()
    return found


def _calls(steps: Sequence[Step]) -> Mapping[Address, Sequence[Step]]:
    found: dict[Address, list[Step]] = {}
    for each in steps:
        found.setdefault(each.address, []).append(each)
    return found


def _drawing(report: PlanReport | DriftReport | ApplyReport) -> str:
    """The order of the steps as markup; "" for too many."""
    return svg.render_svg(plan_graph(report.plan)) if len(report.plan.steps) <= MOST_DRAWN else ""


def _tone(report: Report, change: Change) -> str:
    """Of the worst that the change may do, or of what drift found."""
    if isinstance(report, DriftReport):
        return "loss" if is_gone(change) else ""
    if touches(change) and change.impact is not Impact.ONLINE:
        return _TONES[change.impact]
    return _TONES.get(change.action, "")


def _lines(report: Report, item: Diagnostic) -> list[str]:
    return excerpt([item], report.read_line).splitlines()


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined  # late: only this format needs it

    environment = Environment(
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    source = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def _seen(value: Any) -> Any:
    """Applied to each value of the template. What is markup already, this module made."""
    return value if hasattr(value, "__html__") else visible(str(value))


FORMAT = Format("html", RUNS, render, escape=numbered)
