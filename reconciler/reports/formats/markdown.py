"""Reports as Markdown, for a pull request's comment or a job's summary.

Foreign text of a manifest, the platform or a provider cannot leave its place. It stands in `<code>`, where a
host makes no mention, link or issue number. Characters that mean something to Markdown or to its host are
written as numbers (`&#64;` for `@`).
"""

import html
from collections.abc import Iterable, Iterator, Sequence

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Action, Address, Change, Effect, FieldChange, Owed
from reconciler.core.steps import PLATFORM, Result, Step
from reconciler.core.words import counted
from reconciler.rehearsal.results import CALL_FAULTS, Forecast, Rehearsal
from reconciler.reports import verdict
from reconciler.reports.escape import in_json, numbered, visible
from reconciler.reports.formats import RUNS, Format
from reconciler.reports.grouping import NO_APP, Sections, sections_of
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report, ValidationReport

MOST_OPEN = 20  # so many changes are shown unfolded
_APPROVALS = 20  # so many are named in the verdict
_ROWS = 50  # of one table: what is too long for its place is cut between tables
_LONGEST_LINK = 2_000
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -/,=()")
_NUMBERS = {at: f"&#{at};" for at in range(128) if chr(at) not in _PLAIN}


def render(report: Report) -> str:
    """Return the verdict, the context, changes, results, owed work and diagnostics, in this order."""
    return _joined(blocks_of(report))


def render_within(report: Report, most: int) -> str:
    """Return at most `most` bytes of UTF-8: whole blocks, and the number of blocks that were left out.

    Folded blocks are left out first. The first block, the verdict, is always there.
    """
    blocks = list(blocks_of(report))
    folded_last = sorted(range(1, len(blocks)), key=lambda at: blocks[at].startswith("<details"))
    room = most - len(_joined([blocks[0], _left_out(len(blocks))]).encode())
    kept = {0}
    for at in folded_last:
        size = len(blocks[at].encode()) + len("\n\n")
        if size <= room:
            kept.add(at)
            room -= size
    left = len(blocks) - len(kept)
    return _joined([*(blocks[at] for at in sorted(kept)), *([_left_out(left)] if left else [])])


def _left_out(parts: int) -> str:
    return f"*{counted(parts, 'part')} of this report left out: too long for this place.*"


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks) + "\n"


def code(text: str) -> str:
    """Return `text` as one line of inline code, which no character in it can end."""
    inert = visible(text).translate(_NUMBERS)
    return f"<code>{inert}</code>" if inert.strip() else ""


def blocks_of(report: Report) -> Iterator[str]:
    """Yield the blocks of the report. No block is empty, and none can be taken for a part of another."""
    yield from filter(None, _blocks(report))


def _blocks(report: Report) -> Iterator[str]:
    match report:
        case PlanReport() | DriftReport() | ApplyReport():
            yield from _verdict(report)
            yield from _sections(report, sections_of(report))
            if isinstance(report, PlanReport) and report.price is not None:
                yield verdict.of_price(report.price)
            if report.rehearsal is not None:
                yield from _rehearsal(report.rehearsal)
            if report.forecast is not None:
                yield f"**{verdict.of_forecast(report.forecast)}**"
                yield _forecast(report.forecast)
            yield _lines(report.note.splitlines()) if isinstance(report, DriftReport) else ""
        case ValidationReport():
            yield f"**{verdict.of_report(report)}**"
            yield _list("Changed", map(code, report.changed or ()))
            yield _list("Depends on what changed", map(code, report.dependants))
        case Failure():
            yield f"**Failed:** {code(report.message)}"
            yield _lines([f"help: {line}" for line in report.help.splitlines()])
        case _:
            raise TypeError(f"Markdown shows no {report.kind}")
    for item in report.diagnostics:
        yield _diagnostic(report, item)


def _verdict(report: PlanReport | DriftReport | ApplyReport) -> Iterator[str]:
    """Yield the environment and the verdict as one line, and the rest of the context as another."""
    about, *rest = (text if isinstance(text, str) else text[0] for text in verdict.about(report.plan.context))
    parts = [code(about.removesuffix(":"))]
    parts.append(f"**{verdict.of_report(report)}**")
    if not isinstance(report, DriftReport) and not (isinstance(report, ApplyReport) and report.results):
        parts.append(verdict.of_impact(report.plan.changes))
        needed = verdict.approvals(report.plan)
        parts.append(f"**Needs approval:** {_few(needed)}" if needed else "")
    yield " ".join(filter(None, parts))
    yield code("".join(rest).strip())


def _few(approvals: Sequence[str]) -> str:
    """Name some of the approvals. The verdict is never cut, so it must be short."""
    more = len(approvals) - _APPROVALS
    return ", ".join(map(code, approvals[:_APPROVALS])) + (f" and {more} more" if more > 0 else "")


def _rehearsal(rehearsed: Rehearsal) -> Iterator[str]:
    """Yield the verdict, the differences, the matrix of calls and faults, and the questions for a person."""
    yield f"**{code(verdict.of_rehearsal(rehearsed))}**"
    yield _list("Not as the plan says", map(code, rehearsed.differences))
    left_out = (f"{code(str(item.address))}: {code(item.why)}" for item in rehearsed.unrehearsed)
    yield _list("Not rehearsed", left_out)
    yield _list(verdict.ASSUMED.capitalize(), (code(assumed.says) for assumed in rehearsed.assumptions))
    if not rehearsed.steps:
        return
    rows = (
        [code(step), *(f"{cell.end}{', owed' if cell.owed else ''}" for cell in rehearsed.of_step(step))]
        for step in rehearsed.steps
    )
    yield _folded("How each call ends with each fault", _table(("call", *CALL_FAULTS), rows))
    said = {cell.question or cell.error: cell.end for cell in rehearsed.cells}
    yield _list("What would be asked or said", (f"{end}: {code(text)}" for text, end in said.items() if text))


def _forecast(ahead: Forecast) -> str:
    rows = ((verdict.moment(item.when), code(str(item.address)), code(item.what)) for item in ahead.items)
    return _table(("when", "resource", "what"), rows)


def _sections(report: PlanReport | DriftReport | ApplyReport, sections: Sections) -> Iterator[str]:
    is_drift = isinstance(report, DriftReport)
    yield _results(sections.results)
    title = "Not there any more" if is_drift else "Destroys, interrupts or restarts"
    for at in range(0, len(sections.first), _ROWS):
        table = _changes(report, sections.first[at : at + _ROWS], sections.unmanaged)
        yield f"**{title}{', continued' if at else ''}**\n\n{table}"
    for app, changes in sections.apps.items():
        title = f"{code(app) if app else NO_APP}: {counted(len(changes), 'change')}"
        table = _changes(report, changes, sections.unmanaged)
        yield _folded(title, table, is_open=sections.size <= MOST_OPEN)
    if sections.steps:
        yield _folded(counted(len(sections.steps), "call"), "\n".join(map(_call, sections.steps)))
    yield _owed(sections.owed)
    if isinstance(report, ApplyReport) and report.head:
        yield f"State head: {code(report.head)}"


def _changes(report: Report, changes: Sequence[Change], unmanaged: frozenset[Address]) -> str:
    is_drift = isinstance(report, DriftReport)
    rows = []
    for change in changes:
        fields = "<br>".join(_field(field, shows_effect=not is_drift) for field in change.fields)
        waits = change.waits.said(report.about.at) if change.waits is not None and report.about else ""
        cells = [_resource(report, change), fields, _lines([waits, change.reason])]
        if not is_drift:
            impact = verdict.spoken(change.impact) if change.action is not Action.REFUSED else ""
            cells[1:1] = [" and ".join(map(verdict.word, change.actions)), impact]
        elif change.address in unmanaged:
            cells[2] = f"not managed: {cells[2]}"
        rows.append(cells)
    head = ("resource", "fields", "why") if is_drift else ("resource", "action", "impact", "fields", "why")
    return _table(head, rows)


def _resource(report: Report, change: Change) -> str:
    name = _linked(code(str(change.address)), report.url(report.declared.get(change.address)))
    return f"{name}<br>{code(change.id)}" if change.id else name


def _linked(written: str, url: str) -> str:
    """`written` as a link to `url`; as it is where there is no url, or a very long one."""
    if not url or len(url) > _LONGEST_LINK:
        return written
    return f'<a href="{html.escape(url)}">{written}</a>'


def _field(field: FieldChange, *, shows_effect: bool) -> str:
    shown = shows_effect and field.effect is not Effect.IN_PLACE
    effect = f" ({verdict.spoken(field.effect)})" if shown else ""
    return f"{code(field.path)} {code(in_json(field.before))} → {code(in_json(field.after))}{effect}"


def _call(step: Step) -> str:
    service = f" at {code(step.call.service)}" if step.call.service != PLATFORM else ""
    body = f" {code(in_json(step.call.body))}" if step.call.body is not None else ""
    return f"- {code(f'{step.call.method} {step.call.path}')}{service}{body}"


def _results(results: Sequence[Result]) -> str:
    rows = (
        (code(result.step), result.outcome, code(result.error), code(result.note))
        for result in results
        if result.outcome != "done" or result.note
    )
    return _table(("step", "outcome", "error", "note"), rows)


def _owed(owed: Sequence[Owed]) -> str:
    rows = []
    for item in owed:
        done = "<br>".join(code(str(command)) for command in item.advice)
        because = _lines([item.because, verdict.owed_dates(item)])
        rows.append((code(str(item.address)), code(item.work), item.certainty, because, done))
    return _table(("owed by", "work", "certainty", "because", "once done"), rows)


def _diagnostic(report: Report, item: Diagnostic) -> str:
    place = f" at {_linked(code(item.span.place), report.url(item.span))}" if item.span is not None else ""
    texts = [*item.notes, *([f"help: {item.help}"] if item.help else [])]
    first = f"- **{item.severity}** {code(item.code)}{place}: {code(item.message)}"
    return "<br>".join([first, *(code(line) for text in texts for line in text.splitlines())])


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(filter(None, map(code, texts)))


def _list(title: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items if item]
    return "\n".join([f"{title}:", "", *lines]) if lines else ""


def _folded(title: str, text: str, *, is_open: bool = False) -> str:
    """A block that a reader can open. Markdown inside needs the empty lines."""
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>\n\n{text}\n\n</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; "" without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]) if lines else ""


FORMAT = Format("markdown", RUNS, render, escape=numbered)
