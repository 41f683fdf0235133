"""What a report says in one sentence, without anything that a manifest or the platform says."""

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.core.diagnostics import Severity, has_errors
from reconciler.core.model import Action, Change
from reconciler.core.plural import counted
from reconciler.core.steps import Plan, Result
from reconciler.reports.documents import summarise

Piece = tuple[str, Action | None]  # text, and the action that it counts

_VERBS = {Action.RETAIN: "retained", Action.REFUSED: "refused"}


def of_plan(plan: Plan) -> str:
    return "".join(text for text, _ in pieces_of_plan(plan))


def pieces_of_plan(plan: Plan, retained_before: int = 0) -> Iterator[Piece]:
    """The sentence in pieces; the first one says the most.

    `retained_before`: how many of the retained objects were retained before this plan; they count apart.
    """
    counts = summarise(plan)
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
            yield f"{counts[action]} {_VERBS.get(action, f'to {action.value}')}", action
        yield f"; {rest}." if rest else ".", None
    elif has_errors(plan.diagnostics):
        yield "Plan incomplete: see the errors above.", None
    elif moving:
        yield f"No changes, but {moving} still in progress", None
        yield f"; {rest}." if rest else ".", None
    else:
        warned = any(item.severity is Severity.WARNING for item in plan.diagnostics)
        yield f"No changes: {_are(plan.unchanged, 'resource')} as declared", None
        more = "".join(f", {part}" for part in (retained, outside) if part)
        yield f"{more}{'; see the warnings' if warned else ''}.", None


def of_drift(plan: Plan, *, only_new: bool, unmanaged: Sequence[Change] = ()) -> str:
    """`only_new`: what is known was left out of the plan. `unmanaged`: what moved of other fields."""
    compared = plan.unchanged + len(plan.changes)
    outside = f"; {plan.outside} not looked at" if plan.outside else ""
    if plan.changes:
        drift = "New drift" if only_new else "Drift"
        return f"{drift} in {len(plan.changes)} of {counted(compared, 'object')}{outside}."
    if has_errors(plan.diagnostics):
        return "Drift incomplete: see the errors above."
    if only_new:
        return f"No new drift in {counted(compared, 'object')}{outside}."
    if unmanaged:
        moved = counted(sum(len(change.fields) for change in unmanaged), "other field")
        return f"No drift in the declared fields of {counted(compared, 'object')}; {moved} changed{outside}."
    return f"No drift: {_are(compared, 'object')} as recorded{outside}."


def of_results(results: Sequence[Result]) -> str:
    """How many steps have which outcome."""
    counts = Counter(result.outcome for result in results)
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    verdict = "Applied" if set(counts) <= {"done"} else "Not converged"
    return f"{verdict}: {found or 'no calls were needed; records updated'}."


def _are(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'}"
