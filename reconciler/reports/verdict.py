"""What a report says in one sentence, without anything that a manifest or the platform says."""

from collections import Counter
from collections.abc import Sequence

from reconciler.core.diagnostics import Severity, has_errors
from reconciler.core.model import Action
from reconciler.core.steps import Plan, Result
from reconciler.reports.documents import summarise

_VERBS = {Action.RETAIN: "retained", Action.REFUSED: "refused"}


def of_plan(plan: Plan) -> str:
    counts = summarise(plan)
    actions = [action for action in Action if action is not Action.NOOP and counts[action]]
    found = [f"{counts[action]} {_VERBS.get(action, f'to {action.value}')}" for action in actions]
    if not found and has_errors(plan.diagnostics):
        return "Plan incomplete: see the errors above."
    if not found and plan.steps:
        return f"No changes, but {len(plan.steps)} still in progress; {plan.unchanged} unchanged."
    if not found:
        warned = any(item.severity is Severity.WARNING for item in plan.diagnostics)
        return (
            f"No changes: {plan.unchanged} resources are as declared{'; see the warnings' if warned else ''}."
        )
    return f"Plan: {', '.join(found)}; {plan.unchanged} unchanged."


def of_drift(plan: Plan, *, only_new: bool) -> str:
    compared, new = plan.unchanged + len(plan.changes), "new " if only_new else ""
    if plan.changes:
        return f"{new}drift in {len(plan.changes)} of {compared} objects.".capitalize()
    if has_errors(plan.diagnostics):
        return "Drift incomplete: see the errors above."
    return f"No {new}drift in {compared} objects."


def of_results(results: Sequence[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    converged = set(counts) <= {"done"}
    found = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"{'Applied' if converged else 'Not converged'}: {found}."
