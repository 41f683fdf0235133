"""Plans, drift and results as text for people: one line a change, its fields and its calls below."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.diagnostics import Severity, has_errors
from reconciler.core.model import Action, Change, Effect, Owed
from reconciler.core.steps import PLATFORM, Plan, Result, Step
from reconciler.reports.diagnostics import render as render_diagnostics
from reconciler.reports.documents import shown, summarise
from reconciler.reports.formats import Format
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    Page,
    PlanReport,
    Report,
    ValidationReport,
)
from reconciler.reports.visible import visible, visible_lines

_MARKS = {
    Action.CREATE: "+",
    Action.RESTORE: "+",
    Action.ADOPT: "=",
    Action.EXTEND: "~",
    Action.UPDATE: "~",
    Action.SET: "~",
    Action.SUSPEND: "~",
    Action.START: "~",
    Action.SNAPSHOT: "+",
    Action.RESTART: "~",
    Action.DELETE: "-",
    Action.FORGET: "-",
    Action.RETAIN: "o",
    Action.REFUSED: "!",
    Action.NOOP: " ",
}
_VERBS = {Action.RETAIN: "retained", Action.REFUSED: "refused", Action.NOOP: "unchanged"}
# What touches an object that somebody may be using: its impact is always said.
_TOUCHING = (Action.DELETE, Action.EXTEND, Action.UPDATE, Action.SUSPEND, Action.START, Action.RESTART)
_WORTH_SAYING = tuple(action for action in Action if action is not Action.NOOP)


def render_plan(plan: Plan) -> str:
    """The whole plan; one line when there is nothing to do."""
    lines: list[str] = []
    calls: dict[str, list[Step]] = {}
    for step in plan.steps:
        calls.setdefault(str(step.address), []).append(step)
    for change in plan.changes:
        lines += _change_lines(change, calls.get(str(change.address), []), plan.providers)
    if lines:
        lines.append("")
    lines += _owed_lines(plan.owed)
    lines.append(summary_line(plan))
    return _joined(lines)


def render_drift(plan: Plan, *, only_new: bool = False) -> str:
    """`only_new`: what is known was left out of the plan."""
    lines: list[str] = []
    for change in plan.changes:
        lines.append(f"  ! {change.address}  {change.reason}")
        lines += [
            f"      {field.path}: {_json(field.before)} -> {_json(field.after)}" for field in change.fields
        ]
    if lines:
        lines.append("")
    lines += _owed_lines(plan.owed)
    compared = plan.unchanged + len(plan.changes)
    if plan.changes:
        drift = "New drift" if only_new else "Drift"
        lines.append(f"{drift} in {len(plan.changes)} of {compared} objects.")
    elif has_errors(plan.diagnostics):
        lines.append("Drift: not complete, see the errors.")
    elif only_new:
        lines.append(f"No new drift in {compared} objects.")
    else:
        lines.append(f"No drift: {compared} objects are as recorded.")
    return _joined(lines)


def render_results(results: Sequence[Result], owed: Sequence[Owed]) -> str:
    """What became of the steps: by name what was not done, or needs a word; then counts."""
    lines: list[str] = []
    for result in results:
        if result.outcome != "done" or result.note:
            lines.append(f"  {result.outcome}: {result.step}  {result.error}".rstrip())
        if result.note:
            lines.append(f"      note: {result.note}")
    if lines:
        lines.append("")
    lines += _owed_lines(owed)
    counts: dict[str, int] = {}
    for result in results:
        counts[result.outcome] = counts.get(result.outcome, 0) + 1
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    converged = all(result.outcome == "done" for result in results)
    lines.append(f"{'Applied' if converged else 'Not converged'}: {told or 'records only'}.")
    return _joined(lines)


def _joined(lines: Sequence[str]) -> str:
    """One text of all lines. What came from the platform may hold control characters."""
    return "".join(f"{visible(line)}\n" for line in lines)


def summary_line(plan: Plan) -> str:
    counts = summarise(plan)
    told = [f"{counts[action]} {_plan_verb(action)}" for action in _WORTH_SAYING if counts.get(action)]
    unchanged = f"{plan.unchanged} unchanged" if plan.unchanged else ""
    if not told and has_errors(plan.diagnostics):
        return "Plan: not complete, see the errors."
    if not told and not plan.steps:
        warnings = any(item.severity is Severity.WARNING for item in plan.diagnostics)
        warned = "; see the warnings" if warnings else ""
        return f"No changes: {plan.unchanged} resources are as declared{warned}."
    if not told:
        return f"No changes, but {len(plan.steps)} still in progress; {unchanged}".rstrip("; ") + "."
    return "Plan: " + "; ".join(part for part in (", ".join(told), unchanged) if part) + "."


def _plan_verb(action: Action) -> str:
    return _VERBS.get(action, f"to {action.value}")


def _change_lines(change: Change, steps: Sequence[Step], providers: Mapping[str, str]) -> Iterator[str]:
    id = f" ({change.id})" if change.id and change.id != change.address.name else ""
    impact = f", impact: {change.impact.value}" if change.action in _TOUCHING else ""
    reason = f"  # {change.reason}" if change.reason else ""
    mark = _MARKS.get(change.action, "~")
    yield f"  {mark} {change.address}{id}: {_VERBS.get(change.action, change.action.value)}{impact}{reason}"
    for field in change.fields:
        effect = "" if field.effect in (Effect.IN_PLACE, Effect.WRITE_ONLY) else f"  [{field.effect.value}]"
        yield f"      {field.path}: {_json(field.before)} -> {_json(field.after)}{effect}"
    for step in steps:
        body = f" {_json(step.call.body)}" if step.call.body is not None else ""
        to = _place(step.call.service, providers)
        often = f"  # one for each key of {step.for_each.over}: the answer tells" if step.for_each else ""
        yield f"      {step.call.method} {step.call.path}{to}{body}{often}"


def _place(service: str, providers: Mapping[str, str]) -> str:
    """Nothing for the platform, whose address the settings name."""
    if service == PLATFORM:
        return ""
    return f" at {service} ({providers[service]})" if service in providers else f" at {service}"


def _owed_lines(owed: Sequence[Owed]) -> list[str]:
    if not owed:
        return []
    lines = ["Owed:"]
    for item in owed:
        certainty = "" if item.certainty == "owed" else f" ({item.certainty} whether needed)"
        lines.append(f"  * {item.address}: {item.work}{certainty}, because {item.because}")
        lines += [f"      once done: {each}" for each in item.advice]
    return [*lines, ""]


def _json(value: Any) -> str:
    return json.dumps(shown(value), ensure_ascii=False, default=str)


# --- whole reports ---


def render(report: Report) -> str:
    """All of it; diagnostics come last, with an empty line before them."""
    text = _body(report)
    if report.diagnostics:
        problems = render_diagnostics(report.diagnostics, report.read_line)
        text = f"{text}\n{problems}" if text else problems
    return text


def _body(report: Report) -> str:
    match report:
        case PlanReport():
            return render_plan(report.plan)
        case DriftReport():
            return render_drift(report.plan, only_new=report.only_new) + report.note
        case ApplyReport():
            return _render_apply(report)
        case ValidationReport():
            return _render_validation(report)
        case Page():
            return report.text + report.notices
        case Failure():
            lines = [f"error: {report.message}", *([f"  = help: {report.help}"] if report.help else [])]
            return "".join(f"{visible_lines(line)}\n" for line in lines)
    raise TypeError(f"text shows no {report.kind}")


def _render_apply(report: ApplyReport) -> str:
    plan = "" if report.plan_shown else render_plan(report.plan)
    if report.ended == "declined":
        return f"{plan}Not applied; nothing was changed.\n"
    return plan + (render_results(report.results, report.owed) if report.results else "")


def _render_validation(report: ValidationReport) -> str:
    if has_errors(report.diagnostics):
        return ""
    lines = [f"Valid: {report.resources} resources in {report.files} files."]
    lines += [f"  changed: {address}" for address in report.changed or ()]
    lines += [f"  depends on it: {address}" for address in report.dependants]
    return _joined(lines)


FORMAT = Format("text", frozenset({"plan", "drift", "apply", "validate", "page"}), render, in_parts=True)
