"""Reports as Markdown, for a pull request's comment or a job's summary.

Nothing that a manifest, the platform or a provider says can leave its place. All of it stands in `<code>`,
and characters that mean something to Markdown or to its host are written as numbers (`&#64;` for `@`). A host
makes no mention, link or issue number of what stands in `<code>`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Change, Effect, Owed
from reconciler.core.steps import PLATFORM, Result, Step
from reconciler.reports import verdict
from reconciler.reports.context import context_line
from reconciler.reports.documents import shown
from reconciler.reports.formats import Format
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report
from reconciler.reports.visible import visible

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -/,=()")


def render(report: Report) -> str:
    """What it is about, the verdict, what changes, what became of it, what is owed, and the diagnostics."""
    blocks = [block for block in _blocks(report) if block]
    return "\n\n".join(blocks) + "\n"


def code(text: str) -> str:
    """`text` as it is, in one line of inline code that nothing in it can end."""
    inert = "".join(map(_inert, visible(text)))
    return f"<code>{inert}</code>" if inert.strip() else ""


def _inert(character: str) -> str:
    return character if character in _PLAIN or not character.isascii() else _number(character)


def _number(character: str) -> str:
    return f"&#{ord(character)};"


def _blocks(report: Report) -> Iterator[str]:
    if report.about is not None:
        yield code("".join(text if isinstance(text, str) else text[0] for text in context_line(report.about)))
    match report:
        case PlanReport():
            yield f"**{verdict.of_plan(report.plan)}**"
            yield _changes(report.plan.changes)
            yield _fields(report.plan.changes)
            yield _calls(report.plan.steps)
            yield _owed(report.plan.owed)
        case DriftReport():
            summary = verdict.of_drift(report.plan, only_new=report.only_new, unmanaged=report.unmanaged)
            yield f"**{summary}**"
            changes = (*report.plan.changes, *report.unmanaged)
            yield _changes(changes)
            yield _fields(changes)
            yield _owed(report.plan.owed)
            yield _lines(report.note.splitlines())
        case ApplyReport():
            yield f"**{_verdict(report)}**"
            yield _changes(report.plan.changes)
            yield _fields(report.plan.changes)
            yield _results(report.results)
            yield _owed(report.owed)
            yield f"State head: {code(report.head)}" if report.head else ""
        case Failure():
            yield f"**Failed:** {code(report.message)}"
            yield _lines([f"help: {line}" for line in report.help.splitlines()])
        case _:
            raise TypeError(f"Markdown shows no {report.kind}")
    yield _diagnostics(report.diagnostics)


def _verdict(report: ApplyReport) -> str:
    plan = verdict.of_plan(report.plan)
    if report.ended == "refused":
        return f"Refused; nothing was changed. {plan}"
    if report.ended == "declined":
        return f"Not applied; nothing was changed. {plan}"
    return verdict.of_results(report.results) if report.results else plan


def _changes(changes: Sequence[Change]) -> str:
    rows = (
        (
            code(str(each.address)),
            each.action.value,
            each.impact.value,
            code(each.id or ""),
            code(each.reason),
        )
        for each in changes
    )
    return _table(("resource", "action", "impact", "id", "why"), rows)


def _fields(changes: Sequence[Change]) -> str:
    rows = (
        (
            code(str(change.address)),
            code(field.path),
            code(_json(field.before)),
            code(_json(field.after)),
            "" if field.effect is Effect.IN_PLACE else field.effect.value,
        )
        for change in changes
        for field in change.fields
    )
    return _table(("resource", "field", "before", "after", "effect"), rows)


def _calls(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    calls = [
        f"- {code(f'{step.call.method} {step.call.path}')}"
        + (f" at {code(step.call.service)}" if step.call.service != PLATFORM else "")
        + (f" {code(_json(step.call.body))}" if step.call.body is not None else "")
        for step in steps
    ]
    return "\n".join(["Calls:", "", *calls])


def _results(results: Sequence[Result]) -> str:
    rows = (
        (code(each.step), each.outcome, code(each.error), code(each.note))
        for each in results
        if each.outcome != "done" or each.note
    )
    return _table(("step", "outcome", "error", "note"), rows)


def _owed(owed: Sequence[Owed]) -> str:
    rows = (
        (
            code(str(each.address)),
            code(each.work),
            each.certainty,
            code(each.because),
            "<br>".join(code(str(command)) for command in each.advice),
        )
        for each in owed
    )
    return _table(("owed by", "work", "certainty", "because", "once done"), rows)


def _diagnostics(diagnostics: Sequence[Diagnostic]) -> str:
    return "\n".join(_diagnostic(each) for each in diagnostics)


def _diagnostic(item: Diagnostic) -> str:
    place = f" at {code(item.span.place)}" if item.span is not None else ""
    texts = [*item.notes, *([f"help: {item.help}"] if item.help else [])]
    first = f"- **{item.severity}** {code(item.code)}{place}: {code(item.message)}"
    return "<br>".join([first, *(code(line) for text in texts for line in text.splitlines())])


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(filter(None, map(code, texts)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """ "" without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]) if lines else ""


def _json(value: Any) -> str:
    return json.dumps(shown(value), ensure_ascii=False, default=str)


FORMAT = Format("markdown", frozenset({"plan", "drift", "apply"}), render, escape=_number)
