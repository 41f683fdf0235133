"""What a report says in one sentence, without anything that a manifest or the platform says."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

from reconciler.core.context import Context
from reconciler.core.diagnostics import APPROVAL_NEEDED, Diagnostic, Severity, has_errors
from reconciler.core.model import TO_APPROVE, Action, Change, Impact
from reconciler.core.plural import counted
from reconciler.core.steps import Plan
from reconciler.reports.diagnostics import NOUNS
from reconciler.reports.look import Part, Tone
from reconciler.reports.report import ApplyReport, DriftReport, Failure, PlanReport, Report, ValidationReport
from reconciler.reports.sections import touches
from reconciler.reports.shown import count_actions

_SHORT = 8  # characters of a revision
Piece = tuple[str, Action | None]  # text, and the action that it counts

_WORDS = {Action.RETAIN: "retained", Action.REFUSED: "refused", Action.NOOP: "unchanged"}


def about(context: Context) -> Iterator[Part]:
    """The first line of a report: `prod: https://…, sqlite:…, 3f2a9c1d-dirty`."""
    revision = f"{context.revision[:_SHORT]}{'-dirty' if context.dirty else ''}" if context.revision else ""
    yield f"{context.environment}:", Tone.STRONG
    yield f" {context.platform or 'no platform'}, {context.state or 'no state'}, {revision or 'no revision'}"


def of_report(report: Report) -> str:
    """Of a Failure, what failed: the only one that others have a say in."""
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
    raise TypeError(f"no verdict of {report.kind}")


def of_plan(plan: Plan) -> str:
    return "".join(text for text, _ in pieces_of_plan(plan))


def pieces_of_plan(plan: Plan, retained_before: int = 0) -> Iterator[Piece]:
    """The sentence in pieces; the first one says the most.

    `retained_before`: how many of the retained objects were retained before this plan; they count apart.
    """
    counts = count_actions(plan)
    moving = sum(change.action is Action.NOOP for change in plan.changes)
    counts[Action.RETAIN] -= retained_before
    actions = [action for action in Action if action is not Action.NOOP and counts[action]]
    retained = f"{retained_before} retained as before" if retained_before else ""
    outside = f"{plan.outside} not looked at" if plan.outside else ""
    unchanged = f"{plan.unchanged} unchanged" if plan.unchanged else ""
    rest = ", ".join(part for part in (unchanged, retained, outside) if part)
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
    if report.only_new:
        return f"No new drift in {objects}{outside}."
    if report.unmanaged:
        moved = counted(sum(len(change.fields) for change in report.unmanaged), "other field")
        return f"No drift in the declared fields of {objects}; {moved} changed{outside}."
    return f"No drift in {objects}{outside}."


def of_results(report: ApplyReport) -> str:
    """How many steps have which outcome."""
    counts = Counter(result.outcome for result in report.results)
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    converged = counts.keys() <= {"done"} and not has_errors(report.plan.diagnostics)
    verdict = "Applied" if converged else "Not converged"
    return f"{verdict}: {found or 'no calls were needed; records updated'}."


def of_validation(report: ValidationReport) -> str:
    """How much is valid, or how many problems there are."""
    if not report.files:
        return f"Not valid: {_problems(report.diagnostics)}." if has_errors(report.diagnostics) else "Valid."
    resources, files = counted(report.resources, "resource"), counted(len(report.files), "file")
    if not has_errors(report.diagnostics):
        return f"Valid: {resources} in {files}."
    return f"Not valid: {_problems(report.diagnostics)} in {files}."


def _problems(diagnostics: Sequence[Diagnostic]) -> str:
    counts = Counter(item.severity for item in diagnostics)
    return ", ".join(counted(counts[each], NOUNS[each]) for each in Severity if counts[each])


def of_apply(report: ApplyReport) -> str:
    """How it ended; where nothing was sent, what the plan says."""
    plan = of_plan(report.plan)
    if report.ended == "refused":
        return f"Refused; nothing was changed. {plan}"
    if report.ended == "declined":
        return f"Not applied; nothing was changed. {plan}"
    return of_results(report) if report.results else plan


def of_impact(changes: Sequence[Change]) -> str:
    """How many changes have which impact, the gravest first; "" without changes."""
    counts = Counter(each.impact for each in changes if touches(each))
    graver = [each for each in reversed(Impact) if counts[each] and each is not Impact.ONLINE]
    if not graver:
        return "Impact: none, all of it is done online." if counts else ""
    return f"Impact: {', '.join(f'{spoken(each)} {counts[each]}' for each in graver)}."


def word(action: Action) -> str:
    """What a change does, in a word."""
    return _WORDS.get(action, action.value)


def spoken(word: StrEnum) -> str:
    return word.value.replace("_", " ")


def approvals(plan: Plan) -> list[str]:
    """The options that an apply of `plan` must be given, one for each approval; files cover all."""
    signed = any(each.code == APPROVAL_NEEDED for each in plan.diagnostics)
    deletes = [f"--approve-delete {address.quoted}" for address in plan.deletes]
    creates = [each.address for each in plan.changes if each.reason.startswith(TO_APPROVE)]
    created = [f"--approve-create {address.quoted}@{plan.context.word}" for address in creates]
    return ["--approval FILE"] if signed else deletes + created


def _are(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"
