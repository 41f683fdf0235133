"""Reports as text for people: an app a group, in it one line a change, with its fields and calls below it.

A report of more than one line has its summary first and last. `Style` gives colours and width; the default is
plain text that is the same everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.core.steps import PLATFORM, Plan, Step
from reconciler.core.words import counted
from reconciler.moves.compare import LEFT
from reconciler.reports import verdict
from reconciler.reports.diagnostics import render as render_diagnostics
from reconciler.reports.escape import in_json, page_text, visible, visible_lines
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.grouping import NO_APP, is_gone
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
from reconciler.reports.style import END_TONES, IMPACT_TONES, OUTCOME_TONES, PLAIN, TONES, Part, Style, Tone

if TYPE_CHECKING:  # few reports have one
    from reconciler.planning.graph import Graph
    from reconciler.rehearsal.results import Forecast, Rehearsal

_MARKS = {  # "~" for all others
    Action.CREATE: "+",
    Action.RESTORE: "+",
    Action.SNAPSHOT: "+",
    Action.ADOPT: "=",
    Action.DELETE: "-",
    Action.FORGET: "-",
    Action.RETAIN: "o",
    Action.REFUSED: "!",
    Action.NOOP: " ",
}
_EFFECT_TONES = {Effect.RESTART: Tone.PAUSE, Effect.REFUSED: Tone.REFUSED}
# Actions on an object that somebody may be using: their impact is always said.
_IN_USE = {
    *(Action.DELETE, Action.EXTEND, Action.UPDATE),
    *(Action.SUSPEND, Action.STOP, Action.START, Action.RESTART),
}

Group = dict[str, list[str]]  # lines by app; "" for none


def render_plan(plan: Plan, style: Style = PLAIN, *, unchanged: Iterable[Address] | None = None) -> str:
    """Return the whole plan; one line when there is nothing to do.

    `unchanged`: resources to name although nothing changes; objects that were retained before this plan are
    named with them. None: both are only counted.
    """
    calls: dict[str, list[Step]] = {}
    for step in plan.steps:
        calls.setdefault(str(step.address), []).append(step)
    before = _retained_before(plan)
    groups: Group = {}
    for change in plan.changes:
        if unchanged is not None or change.address not in before:
            of_change = _group_of(groups, change.address)
            of_change += _change_lines(style, change, calls.get(str(change.address), []), plan.providers)
            if change.waits is not None:
                of_change.append(style.line(6, (change.waits.said(plan.context.at), Tone.PAUSE)))
    for address in unchanged or ():
        _group_of(groups, address).append(style.line(4, f"{address}: unchanged"))
    return _framed(style, tuple(_summary(plan, len(before))), groups, plan.owed)


def render_drift(report: DriftReport) -> str:
    """Return the drift of each object; one line when there is none."""
    groups: Group = {}
    for change in report.plan.changes:
        tone = Tone.LOSS if is_gone(change) else Tone.CHANGE
        _group_of(groups, change.address).extend(_drifted(report.style, ("!", tone), change, tone))
    for change in report.unmanaged:
        _group_of(groups, change.address).extend(_drifted(report.style, "~", change, Tone.NEW))
    summary = (verdict.of_drift(report), Tone.STRONG)
    return _framed(report.style, (summary,), groups, report.plan.owed)


def _drifted(style: Style, mark: Part, change: Change, tone: Tone) -> Iterator[str]:
    yield from _with_reason(style, (mark, " ", (str(change.address), Tone.STRONG)), change.reason, "  ", tone)
    for field in change.fields:
        yield style.line(6, *_field(field, shows_effect=False))


def render_results(report: ApplyReport) -> str:
    """Return the steps that are not done or have a note, the owed work, the state's head and the counts."""
    style = report.style
    lines: list[str] = []
    for result in report.results:
        if result.outcome != "done" or result.note:
            outcome = (f"{result.outcome}:", OUTCOME_TONES.get(result.outcome, Tone.NEW))
            why = f"  {result.error}" if result.error else ""
            lines.append(style.line(2, outcome, f" {result.step}{why}"))
        if result.note:
            lines.append(style.line(6, f"note: {result.note}"))
    if lines:
        lines.append("")
    lines += _owed_lines(style, report.owed)
    lines += _head_lines(report)
    return _joined([*lines, style.line(0, (verdict.of_results(report), Tone.STRONG))])


def _head_lines(report: ApplyReport) -> list[str]:
    """The state's head. A reader who keeps it can later prove that the state was not altered."""
    return [report.style.line(0, (f"State head: {report.head}", Tone.FAINT))] if report.head else []


def _group_of(groups: Group, address: Address) -> list[str]:
    return groups.setdefault(address.app or "", [])


def _framed(style: Style, summary: tuple[Part, ...], groups: Group, owed: Sequence[Owed]) -> str:
    """Return the groups, in the order of their names, between two summaries; one summary without groups."""
    body: list[str] = []
    for app in sorted(groups):
        body += [style.line(0, (f"{app or NO_APP}:", Tone.STRONG)), *groups[app], ""]
    body += _owed_lines(style, owed)
    framing = style.line(0, *summary)
    return _joined([framing, "", *body, framing] if body else [framing])


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _retained_before(plan: Plan) -> set[Address]:
    """The objects that were retained before this plan and wait for nobody.

    The plan binds an object when it first sees it without a manifest. A change whose reason holds a command
    asks a person.
    """
    left = {binding.address for binding in plan.bindings if binding.applied.get(LEFT)}
    return {
        change.address
        for change in plan.changes
        if change.action is Action.RETAIN and change.address not in left and not change.advice
    }


def _summary(plan: Plan, before: int) -> Iterator[Part]:
    """The verdict in colours. `before`: how many retained objects are only counted."""
    for number, (text, action) in enumerate(verdict.pieces_of_plan(plan, before)):
        tone = TONES.get(action, Tone.PLAIN) if action is not None else Tone.PLAIN
        yield text, Tone.STRONG if number == 0 else tone


def _change_lines(
    style: Style, change: Change, steps: Sequence[Step], providers: Mapping[str, str]
) -> Iterator[str]:
    tone = _tone(change)
    head: list[Part] = [(_MARKS.get(change.action, "~"), tone), " ", (str(change.address), Tone.STRONG)]
    if change.id and change.id != change.address.name:
        head.append(f" ({change.id})")
    head += [": ", (verdict.word(change.action), tone)]
    if _touches(change):
        head += [", ", (f"impact: {change.impact.value}", IMPACT_TONES.get(change.impact, Tone.PLAIN))]
    yield from _with_reason(style, head, change.reason, "  # ", Tone.PLAIN)
    for field in change.fields:
        yield style.line(6, *_field(field))
    for step in steps:
        body = f" {in_json(step.call.body)}" if step.call.body is not None else ""
        to = _place(step.call.service, providers)
        often = (
            f"  # one for each key of {step.for_each.over}, known after that answer" if step.for_each else ""
        )
        yield style.line(6, (f"{step.call.method} {step.call.path}{to}{body}{often}", Tone.FAINT))


def _tone(change: Change) -> Tone:
    """The colour of the gravest effect of a change."""
    if _touches(change) and change.impact in IMPACT_TONES:
        return IMPACT_TONES[change.impact]
    return TONES.get(change.action, Tone.PLAIN)


def _touches(change: Change) -> bool:
    return not _IN_USE.isdisjoint(change.actions)


def _with_reason(style: Style, head: Sequence[Part], reason: str, between: str, tone: Tone) -> Iterator[str]:
    """Yield `head` and the reason, on one line where they fit."""
    if not reason:
        yield style.line(2, *head)
    elif style.fits(2, *head, f"{between}{reason}"):
        yield style.line(2, *head, between, (reason, tone))
    else:
        yield style.line(2, *head)
        yield style.line(6, between.lstrip(), (reason, tone), hang=len(between.lstrip()))


def _field(field: FieldChange, *, shows_effect: bool = True) -> Iterator[Part]:
    yield f"{field.path}: {in_json(field.before)} -> {in_json(field.after)}"
    if shows_effect and field.effect not in (Effect.IN_PLACE, Effect.WRITE_ONLY):
        yield "  "
        yield f"[{field.effect.value}]", _EFFECT_TONES.get(field.effect, Tone.PLAIN)


def _place(service: str, providers: Mapping[str, str]) -> str:
    """The provider that a call goes to; "" for the platform, which the first line names."""
    if service == PLATFORM:
        return ""
    return f" at {service} ({providers[service]})" if service in providers else f" at {service}"


def _owed_lines(style: Style, owed: Sequence[Owed]) -> list[str]:
    if not owed:
        return []
    lines = [style.line(0, ("Owed:", Tone.PAUSE))]
    for item in owed:
        what = (verdict.owed_words(item.work, item.certainty), Tone.PAUSE)
        lines.append(
            style.line(2, ("*", Tone.PAUSE), f" {item.address}: ", what, f", because {item.because}")
        )
        lines += [style.line(6, dates)] if (dates := verdict.owed_dates(item)) else []
        lines += [f"      once done: {visible(str(done))}" for done in item.advice]
    return [*lines, ""]


# --- rehearsals, forecasts and graphs ---


def _rehearsal_lines(style: Style, rehearsal: "Rehearsal") -> list[str]:
    """The verdict, and below it the runs that do not converge, with the question or the error."""
    found = [style.line(0, (verdict.of_rehearsal(rehearsal), Tone.STRONG))]
    found += [style.line(2, ("differs:", Tone.LOSS), f" {text}") for text in rehearsal.differences]
    for left_out in rehearsal.unrehearsed:
        found.append(style.line(2, ("not rehearsed:", Tone.PAUSE), f" {left_out.address}: {left_out.why}"))
    calm = []
    for step in rehearsal.steps:
        cells = rehearsal.of_step(step)
        if all(cell.end == "converged" and not cell.owed for cell in cells):
            calm.append(step)
            continue
        found.append(style.line(2, (step, Tone.STRONG)))
        for (end, said, works), faults in verdict.group_cells(cells).items():
            found.append(style.line(6, (f"{verdict.ENDS[end]}:", END_TONES[end]), f" {', '.join(faults)}"))
            found += [style.line(10, said)] if said else []
            found += [style.line(10, ("owed:", Tone.PAUSE), f" {work}") for work in works]
    if calm:
        found.append(style.line(2, f"converge with every fault: {', '.join(calm)}"))
    if rehearsal.assumptions:
        found.append(style.line(2, f"{verdict.ASSUMED}:"))
        found += [style.line(6, assumption.says) for assumption in rehearsal.assumptions]
    return found


def _forecast_lines(style: Style, forecast: "Forecast") -> Iterator[str]:
    yield style.line(0, (verdict.of_forecast(forecast), Tone.STRONG))
    for item in forecast.items:
        when = f"{verdict.moment(item.when)}: " if item.when is not None else ""
        yield style.line(2, (when, Tone.PAUSE), f"{item.address}: {item.what}")


def render_graph(graph: "Graph") -> str:
    """Return a graph by levels. Nodes of one level can be applied at once, after the nodes that they name."""
    return page_text(_graph_lines(graph))


def _graph_lines(graph: "Graph") -> Iterator[str]:
    for number, nodes in enumerate(graph.levels, start=1):
        yield f"{number}. {'first' if number == 1 else 'then'}"
        for node in nodes:
            detail = f"  {node.detail}" if node.detail else ""
            after = f"  <- {', '.join(node.after)}" if node.after else ""
            yield f"   {node.label}{detail}{after}"
        yield ""
    yield f"{verdict.of_graph(graph)}."


# --- whole reports ---


def render(report: Report) -> str:
    """Return a whole report: the context first, the diagnostics last, after an empty line."""
    first = f"{report.style.line(0, *verdict.about(report.about))}\n" if report.about is not None else ""
    text = first + _body(report)
    if report.diagnostics:
        problems = render_diagnostics(report.diagnostics, report.read_line)
        text = f"{text}\n{problems}" if text else problems
    return text


def _body(report: Report) -> str:
    match report:
        case PlanReport():
            parts = [render_plan(report.plan, report.style, unchanged=report.unchanged)]
            if report.price is not None:
                parts.append(_joined([report.style.line(0, verdict.of_price(report.price))]))
            if report.rehearsal is not None:
                parts.append(_joined(_rehearsal_lines(report.style, report.rehearsal)))
            if report.forecast is not None:
                parts.append(_joined(_forecast_lines(report.style, report.forecast)))
            return "\n".join(parts)
        case DriftReport():
            return render_drift(report) + report.note
        case ApplyReport():
            return _render_apply(report)
        case ValidationReport():
            return _render_validation(report)
        case GraphReport():
            return render_graph(report.graph)
        case Page():
            return report.text + report.notices
        case Failure():
            lines = [f"error: {report.message}", *([f"  = help: {report.help}"] if report.help else [])]
            return "".join(f"{visible_lines(line)}\n" for line in lines)
    raise TypeError(f"text shows no {report.kind}")


def _render_apply(report: ApplyReport) -> str:
    plan = "" if report.plan_shown else render_plan(report.plan, report.style, unchanged=report.unchanged)
    if report.ended == "declined":
        return f"{plan}Not applied; nothing was changed.\n"
    if not report.results:
        return plan + _joined(_head_lines(report))
    return plan + render_results(report)


def _render_validation(report: ValidationReport) -> str:
    if has_errors(report.diagnostics):
        return ""
    resources, files = counted(report.resources, "resource"), counted(len(report.files), "file")
    of = f", in {', '.join(report.environments)}" if report.environments else ""
    lines = [f"Valid: {resources} in {files}{of}."]
    lines += [f"  changed: {address}" for address in report.changed or ()]
    lines += [f"  depends on it: {address}" for address in report.dependants]
    return _joined(map(visible, lines))


FORMAT = Format("text", RUNS | {"forecast", "inventory", "graph", "page"}, render, in_parts=True)
