"""Reports in one sentence, and the words that all formats use. No text of a manifest or the platform."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.core.context import Context
from reconciler.core.diagnostics import (
    APPROVAL_NEEDED,
    FOUND_BY_DRIFT,
    GUARDRAIL_UNDECIDED,
    REFUSED_BY_GUARDRAIL,
    Diagnostic,
    Severity,
    has_errors,
)
from reconciler.core.model import TO_APPROVE, Action, Change, Impact, Owed
from reconciler.core.steps import Plan
from reconciler.core.words import counted, in_words
from reconciler.reports.diagnostics import NOUNS
from reconciler.reports.grouping import count_actions, count_waiting, touches
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    Failure,
    Page,
    PlanReport,
    Report,
    ValidationReport,
)
from reconciler.reports.style import Part, Tone

if TYPE_CHECKING:  # few reports have one
    from reconciler.planning.graph import Graph
    from reconciler.rehearsal.results import Cell, End, Forecast, Rehearsal
    from reconciler.reports.fragments import PriceJson

CENT = Decimal("0.01")  # amounts are rounded when they are shown
_SHORT = 8  # characters of a revision
Piece = tuple[str, Action | None]  # text, and the action that it counts

_WORDS = {Action.RETAIN: "retained", Action.REFUSED: "refused", Action.NOOP: "unchanged"}
# The end of one run of a rehearsal, for one run and for several; the gravest last.
ENDS: "Mapping[End, str]" = {
    "converged": "converges",
    "pending": "stays pending after three more applies",
    "decision": "a person must decide",
    "failed": "fails",
}
_SEVERAL_ENDS: "Mapping[End, str]" = {
    "converged": "converge",
    "pending": "stay pending",
    "decision": "need a decision",
    "failed": "fail",
}
ASSUMED = "taken for granted, as the API document leaves it open"


def about(context: Context) -> Iterator[Part]:
    """The first line of a report: `prod: https://…, sqlite:…, 3f2a9c1d-dirty`."""
    revision = f"{context.revision[:_SHORT]}{'-dirty' if context.dirty else ''}" if context.revision else ""
    yield f"{context.environment}:", Tone.STRONG
    yield f" {context.platform or 'no platform'}, {context.state or 'no state'}, {revision or 'no revision'}"


def of_report(report: Report) -> str:
    """The verdict of a report. Only that of a Failure holds text from elsewhere."""
    match report:
        case PlanReport():
            return of_plan(report.plan)
        case DriftReport():
            return of_drift(report)
        case ApplyReport():
            return of_apply(report)
        case ValidationReport():
            return of_validation(report)
        case Failure():
            return report.message
        case Page():
            return report.text.partition("\n")[0]
    raise TypeError(f"no verdict of {report.kind}")


def of_price(price: "PriceJson") -> str:
    """`Price of a month: +12.50.`, and how many changes have none."""
    unpriced = f"; {counted(len(price.unpriced), 'change')} without a price" if price.unpriced else ""
    return f"Price of a month: {price.monthly.quantize(CENT):+}{unpriced}."


# --- plans and what became of them ---


def of_plan(plan: Plan) -> str:
    """`Plan: 1 to create; 3 unchanged.`, or that nothing changes."""
    return "".join(text for text, _ in pieces_of_plan(plan))


def pieces_of_plan(plan: Plan, retained_before: int = 0) -> Iterator[Piece]:
    """Yield the sentence of `of_plan` in pieces; the first one says the most.

    `retained_before`: how many of the retained objects were retained before this plan. They count apart.
    """
    counts = count_actions(plan)
    moving = sum(change.action is Action.NOOP for change in plan.changes)
    counts[Action.RETAIN] -= retained_before
    actions = [action for action in Action if action is not Action.NOOP and counts[action]]
    retained = f"{retained_before} retained as before" if retained_before else ""
    outside = f"{plan.outside} not looked at" if plan.outside else ""
    unchanged = f"{plan.unchanged} unchanged" if plan.unchanged else ""
    waiting = f"{number} of them waiting" if (number := count_waiting(plan)) else ""
    rest = ", ".join(part for part in (waiting, unchanged, retained, outside) if part)
    if actions:
        yield "Plan:", None
        for action in actions:
            yield " " if action is actions[0] else ", ", None
            yield f"{counts[action]} {_WORDS.get(action, f'to {action.value}')}", action
        yield f"; {rest}." if rest else ".", None
    elif has_errors(plan.diagnostics):
        yield "Plan incomplete: see the errors.", None
    elif moving:
        yield f"No changes, but {moving} still in progress", None
        yield f"; {rest}." if rest else ".", None
    else:
        warned = any(item.severity is Severity.WARNING for item in plan.diagnostics)
        yield f"No changes: {_are(plan.unchanged, 'resource')} as declared", None
        more = "".join(f", {part}" for part in (retained, outside) if part)
        yield f"{more}{'; see the warnings' if warned else ''}.", None


def of_drift(report: DriftReport) -> str:
    """How many of the recorded objects drifted, and how many were left out."""
    plan, left = report.plan, report.without_manifest
    objects = counted(plan.unchanged + len(plan.changes), "recorded object")
    if left:
        objects += f" ({left} {'has' if left == 1 else 'have'} no manifest)"
    outside = f"; {plan.outside} not looked at" if plan.outside else ""
    if plan.changes:
        drift = "New drift" if report.only_new else "Drift"
        return f"{drift} in {len(plan.changes)} of {objects}{outside}."
    if has_errors(plan.diagnostics):
        return "Drift incomplete: see the errors."
    if any(problem.code in (REFUSED_BY_GUARDRAIL, GUARDRAIL_UNDECIDED) for problem in plan.diagnostics):
        return f"No drift in {objects}{outside}, but a guardrail is not met: see the warnings."
    if any(problem.code in FOUND_BY_DRIFT for problem in plan.diagnostics):
        return f"No drift in {objects}{outside}, but not all is as it should be: see the warnings."
    if report.only_new:
        return f"No new drift in {objects}{outside}."
    if report.unmanaged:
        moved = counted(sum(len(change.fields) for change in report.unmanaged), "other field")
        return f"No drift in the declared fields of {objects}; {moved} changed{outside}."
    return f"No drift in {objects}{outside}."


def of_results(report: ApplyReport) -> str:
    """The number of steps by outcome."""
    counts = Counter(result.outcome for result in report.results)
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    converged = counts.keys() <= {"done"} and not has_errors(report.plan.diagnostics)
    verdict = "Applied" if converged else "Not converged"
    return f"{verdict}: {found or 'no calls were needed; records updated'}."


def of_validation(report: ValidationReport) -> str:
    """How much is valid, or the number of problems. A report that was read from JSON knows no files."""
    if not report.files:
        return f"Not valid: {_problems(report.diagnostics)}." if has_errors(report.diagnostics) else "Valid."
    resources, files = counted(report.resources, "resource"), counted(len(report.files), "file")
    if not has_errors(report.diagnostics):
        return f"Valid: {resources} in {files}."
    return f"Not valid: {_problems(report.diagnostics)} in {files}."


def _problems(diagnostics: Sequence[Diagnostic]) -> str:
    counts = Counter(item.severity for item in diagnostics)
    return ", ".join(counted(counts[severity], NOUNS[severity]) for severity in Severity if counts[severity])


def of_apply(report: ApplyReport) -> str:
    """How the apply ended; the verdict of the plan where no step ran."""
    plan = of_plan(report.plan)
    if report.ended == "refused":
        return f"Refused; nothing was changed. {plan}"
    if report.ended == "declined":
        return f"Not applied; nothing was changed. {plan}"
    return of_results(report) if report.results else plan


def of_impact(changes: Sequence[Change]) -> str:
    """The number of changes by impact, the gravest first; "" without changes."""
    counts = Counter(change.impact for change in changes if touches(change))
    graver = [impact for impact in reversed(Impact) if counts[impact] and impact is not Impact.ONLINE]
    if not graver:
        return "Impact: none, all of it is done online." if counts else ""
    return f"Impact: {', '.join(f'{spoken(impact)} {counts[impact]}' for impact in graver)}."


def approvals(plan: Plan) -> list[str]:
    """The options that an apply of `plan` needs, one for each approval. Approval files cover all of them."""
    signed = any(problem.code == APPROVAL_NEEDED for problem in plan.diagnostics)
    deletes = [f"--approve-delete {address.quoted}" for address in plan.deletes]
    creates = [change.address for change in plan.changes if change.reason.startswith(TO_APPROVE)]
    created = [f"--approve-create {address.quoted}@{plan.context.word}" for address in creates]
    return ["--approval FILE"] if signed else deletes + created


def _are(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"


# --- rehearsals, forecasts and graphs ---


def of_rehearsal(rehearsal: "Rehearsal") -> str:
    """How the clean run ends, and how many runs with a fault end in which way."""
    clean = rehearsal.clean
    if not rehearsal.of:
        return "Nothing to rehearse: the plan sends no call."
    converged = clean.end == "converged"
    after = f"in {in_words(clean.duration_s)}" if converged else f"({clean.error or clean.question})"
    first = f"Rehearsed on a twin of the platform: a clean run {ENDS[clean.end]} {after}"
    ends = Counter(cell.end for cell in rehearsal.cells[1:])
    parts = [f"{ends[end]} {words}" for end, words in _SEVERAL_ENDS.items() if ends[end]]
    calls = counted(len(rehearsal.steps), "call")
    of = f" (a sample of {rehearsal.of})" if rehearsal.of > len(rehearsal.steps) else ""
    return f"{first}. With faults in {calls}{of}: {', '.join(parts)}."


def of_run(step: str, end: "End") -> str:
    """How one run of a rehearsal ends. `step`: the one with a fault; "" for the clean run."""
    between = ":" if end == "decision" else ""
    return f"{step or 'a clean run'}{between} {ENDS[end]}"


def group_cells(cells: "Sequence[Cell]") -> "Mapping[tuple[End, str, tuple[str, ...]], Sequence[str]]":
    """Group the faults of one step, the gravest end first.

    The keys are the end, the question or error, and the owed works.
    """
    found: dict[tuple[End, str, tuple[str, ...]], list[str]] = {}
    gravest_first = sorted(cells, key=lambda cell: list(ENDS).index(cell.end), reverse=True)
    for cell in gravest_first:
        found.setdefault((cell.end, cell.question or cell.error, owed_by(cell)), []).append(cell.fault)
    return found


def owed_by(cell: "Cell") -> tuple[str, ...]:
    """The work that is owed after one run of a rehearsal, with its address."""
    return tuple(f"{owed.address}: {owed_words(owed.work, owed.certainty)}" for owed in cell.owed)


def of_forecast(forecast: "Forecast") -> str:
    """The moment and the condition of a forecast. Its items are listed below this line."""
    after = ", the plan being applied now" if forecast.after_apply else ""
    found = ":" if forecast.items else ": nothing."
    return f"By {moment(forecast.at)}, if nobody does anything{after}{found}"


def of_graph(graph: "Graph") -> str:
    """The number of nodes, arrows and levels."""
    counts = ((len(graph.nodes), graph.what), (graph.edges, graph.by), (len(graph.levels), "level"))
    return ", ".join(counted(count, noun) for count, noun in counts)


# --- single words ---


def word(action: Action) -> str:
    """What a change does, in a word."""
    return _WORDS.get(action, action.value)


def spoken(word: StrEnum) -> str:
    """`data loss` for `data_loss`."""
    return word.value.replace("_", " ")


def owed_words(work: str, certainty: str) -> str:
    """`restart`, or `restart (unknown whether needed)`."""
    return work if certainty == "owed" else f"{work} ({certainty} whether needed)"


def owed_dates(owed: Owed) -> str:
    """From when the work may be done, and until when it has to be; "" where nothing says."""
    earliest = f"earliest {moment(owed.earliest)}" if owed.earliest is not None else ""
    forced = f"at the latest {moment(owed.forced)}" if owed.forced is not None else ""
    return ", ".join(filter(None, (earliest, forced)))


def moment(at: datetime | None) -> str:
    """A time in UTC to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at is not None else "not known"
