"""Plans, drift and results as text for people: an app a group, and in it a line a change, with its reason,
its fields and its calls below.

A report of more than one line has its summary first and last. It looks as its `Look` says: by default as
plain text that is the same everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.core.plural import counted
from reconciler.core.steps import PLATFORM, Plan, Step
from reconciler.moves.compare import LEFT
from reconciler.reports import forecast, graph, rehearsal, verdict
from reconciler.reports.diagnostics import render as render_diagnostics
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.look import IMPACT_TONES, OUTCOME_TONES, PLAIN, TONES, Look, Part, Tone
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
from reconciler.reports.sections import is_gone
from reconciler.reports.shown import in_json, owed_words
from reconciler.reports.visible import visible, visible_lines

_MARKS = {
    Action.CREATE: "+",
    Action.RESTORE: "+",
    Action.ADOPT: "=",
    Action.EXTEND: "~",
    Action.UPDATE: "~",
    Action.SET: "~",
    Action.SUSPEND: "~",
    Action.STOP: "~",
    Action.START: "~",
    Action.SNAPSHOT: "+",
    Action.RESTART: "~",
    Action.DELETE: "-",
    Action.FORGET: "-",
    Action.RETAIN: "o",
    Action.REFUSED: "!",
    Action.NOOP: " ",
}
_EFFECT_TONES = {Effect.RESTART: Tone.PAUSE, Effect.REFUSED: Tone.REFUSED}
# What touches an object that somebody may be using: its impact is always said.
_TOUCHING = (
    Action.DELETE,
    Action.EXTEND,
    Action.UPDATE,
    Action.SUSPEND,
    Action.STOP,
    Action.START,
    Action.RESTART,
)

Group = dict[str, list[str]]  # the lines of each app; "" is no app


def render_plan(plan: Plan, look: Look = PLAIN, *, unchanged: Iterable[Address] | None = None) -> str:
    """The whole plan; one line when there is nothing to do.

    `unchanged`: those resources, to be named, and with them what is retained as it was before this plan.
    None: both are only counted.
    """
    calls: dict[str, list[Step]] = {}
    for step in plan.steps:
        calls.setdefault(str(step.address), []).append(step)
    before = _retained_before(plan)
    groups: Group = {}
    for change in plan.changes:
        if unchanged is not None or change.address not in before:
            lines = _change_lines(look, change, calls.get(str(change.address), []), plan.providers)
            _group_of(groups, change.address).extend(lines)
    for address in unchanged or ():
        _group_of(groups, address).append(look.line(4, f"{address}: unchanged"))
    return _framed(look, tuple(_summary(plan, len(before))), groups, plan.owed)


def render_drift(report: DriftReport) -> str:
    groups: Group = {}
    for change in report.plan.changes:
        tone = Tone.LOSS if is_gone(change) else Tone.CHANGE
        _group_of(groups, change.address).extend(_drifted(report.look, ("!", tone), change, tone))
    for change in report.unmanaged:
        _group_of(groups, change.address).extend(_drifted(report.look, "~", change, Tone.NEW))
    summary = (verdict.of_drift(report), Tone.STRONG)
    return _framed(report.look, (summary,), groups, report.plan.owed)


def _drifted(look: Look, mark: Part, change: Change, tone: Tone) -> Iterator[str]:
    yield from _with_reason(look, (mark, " ", (str(change.address), Tone.STRONG)), change.reason, "  ", tone)
    for field in change.fields:
        yield look.line(6, *_field(field, shows_effect=False))


def render_results(report: ApplyReport) -> str:
    """What became of the steps: by name what was not done, or needs a word; the state's head; then counts."""
    look = report.look
    lines: list[str] = []
    for result in report.results:
        if result.outcome != "done" or result.note:
            outcome = (f"{result.outcome}:", OUTCOME_TONES.get(result.outcome, Tone.NEW))
            why = f"  {result.error}" if result.error else ""
            lines.append(look.line(2, outcome, f" {result.step}{why}"))
        if result.note:
            lines.append(look.line(6, f"note: {result.note}"))
    if lines:
        lines.append("")
    lines += _owed_lines(look, report.owed)
    lines += _head_lines(report)
    return _joined([*lines, look.line(0, (verdict.of_results(report), Tone.STRONG))])


def _head_lines(report: ApplyReport) -> list[str]:
    """To be kept elsewhere: later the state can be compared with it."""
    return [report.look.line(0, (f"State head: {report.head}", Tone.FAINT))] if report.head else []


def _group_of(groups: Group, address: Address) -> list[str]:
    return groups.setdefault(address.app or "", [])


def _framed(look: Look, summary: tuple[Part, ...], groups: Group, owed: Sequence[Owed]) -> str:
    """Groups in the order of their names between two summaries; without any, the last one alone."""
    body: list[str] = []
    for app in sorted(groups):
        body += [look.line(0, (f"{app or graph.NO_APP}:", Tone.STRONG)), *groups[app], ""]
    body += _owed_lines(look, owed)
    framing = look.line(0, *summary)
    return _joined([framing, "", *body, framing] if body else [framing])


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _retained_before(plan: Plan) -> set[Address]:
    """What was retained before this plan, too, and waits for nobody.

    The plan binds what it is the first one to see without a manifest; a reason with a command asks a person.
    """
    left = {binding.address for binding in plan.bindings if binding.applied.get(LEFT)}
    return {
        change.address
        for change in plan.changes
        if change.action is Action.RETAIN and change.address not in left and not change.advice
    }


def _summary(plan: Plan, before: int) -> Iterator[Part]:
    """`before`: how many of the retained ones are only counted."""
    for number, (text, action) in enumerate(verdict.pieces_of_plan(plan, before)):
        tone = TONES.get(action, Tone.PLAIN) if action is not None else Tone.PLAIN
        yield text, Tone.STRONG if number == 0 else tone


def _change_lines(
    look: Look, change: Change, steps: Sequence[Step], providers: Mapping[str, str]
) -> Iterator[str]:
    tone = _tone(change)
    head: list[Part] = [(_MARKS.get(change.action, "~"), tone), " ", (str(change.address), Tone.STRONG)]
    if change.id and change.id != change.address.name:
        head.append(f" ({change.id})")
    head += [": ", (verdict.word(change.action), tone)]
    if _touches(change):
        head += [", ", (f"impact: {change.impact.value}", IMPACT_TONES.get(change.impact, Tone.PLAIN))]
    yield from _with_reason(look, head, change.reason, "  # ", Tone.PLAIN)
    for field in change.fields:
        yield look.line(6, *_field(field))
    for step in steps:
        body = f" {in_json(step.call.body)}" if step.call.body is not None else ""
        to = _place(step.call.service, providers)
        often = (
            f"  # one for each key of {step.for_each.over}, known after that answer" if step.for_each else ""
        )
        yield look.line(6, (f"{step.call.method} {step.call.path}{to}{body}{often}", Tone.FAINT))


def _tone(change: Change) -> Tone:
    """The colour of the worst that the change may do."""
    if _touches(change) and change.impact in IMPACT_TONES:
        return IMPACT_TONES[change.impact]
    return TONES.get(change.action, Tone.PLAIN)


def _touches(change: Change) -> bool:
    return any(action in _TOUCHING for action in change.actions)


def _with_reason(look: Look, head: Sequence[Part], reason: str, between: str, tone: Tone) -> Iterator[str]:
    """The reason behind `head` where that is short enough, else on lines of its own."""
    if not reason:
        yield look.line(2, *head)
    elif look.fits(2, *head, f"{between}{reason}"):
        yield look.line(2, *head, between, (reason, tone))
    else:
        yield look.line(2, *head)
        yield look.line(6, between.lstrip(), (reason, tone), hang=len(between.lstrip()))


def _field(field: FieldChange, *, shows_effect: bool = True) -> Iterator[Part]:
    yield f"{field.path}: {in_json(field.before)} -> {in_json(field.after)}"
    if shows_effect and field.effect not in (Effect.IN_PLACE, Effect.WRITE_ONLY):
        yield "  "
        yield f"[{field.effect.value}]", _EFFECT_TONES.get(field.effect, Tone.PLAIN)


def _place(service: str, providers: Mapping[str, str]) -> str:
    """Nothing for the platform, whose address the settings name."""
    if service == PLATFORM:
        return ""
    return f" at {service} ({providers[service]})" if service in providers else f" at {service}"


def _owed_lines(look: Look, owed: Sequence[Owed]) -> list[str]:
    if not owed:
        return []
    lines = [look.line(0, ("Owed:", Tone.PAUSE))]
    for item in owed:
        what = (owed_words(item.work, item.certainty), Tone.PAUSE)
        lines.append(look.line(2, ("*", Tone.PAUSE), f" {item.address}: ", what, f", because {item.because}"))
        lines += [f"      once done: {visible(str(each))}" for each in item.advice]
    return [*lines, ""]


# --- whole reports ---


def render(report: Report) -> str:
    """All of it: first what it is about; diagnostics come last, with an empty line before them."""
    first = f"{report.look.line(0, *verdict.about(report.about))}\n" if report.about is not None else ""
    text = first + _body(report)
    if report.diagnostics:
        problems = render_diagnostics(report.diagnostics, report.read_line)
        text = f"{text}\n{problems}" if text else problems
    return text


def _body(report: Report) -> str:
    match report:
        case PlanReport():
            parts = [render_plan(report.plan, report.look, unchanged=report.unchanged)]
            if report.rehearsal is not None:
                parts.append(_joined(rehearsal.lines(report.rehearsal, report.look)))
            if report.forecast is not None:
                parts.append(_joined(forecast.lines(report.forecast, report.look)))
            return "\n".join(parts)
        case DriftReport():
            return render_drift(report) + report.note
        case ApplyReport():
            return _render_apply(report)
        case ValidationReport():
            return _render_validation(report)
        case GraphReport():
            return graph.render_text(report.graph)
        case Page():
            return report.text + report.notices
        case Failure():
            lines = [f"error: {report.message}", *([f"  = help: {report.help}"] if report.help else [])]
            return "".join(f"{visible_lines(line)}\n" for line in lines)
    raise TypeError(f"text shows no {report.kind}")


def _render_apply(report: ApplyReport) -> str:
    plan = "" if report.plan_shown else render_plan(report.plan, report.look, unchanged=report.unchanged)
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


FORMAT = Format("text", RUNS | {"graph", "page"}, render, in_parts=True)
