"""What the JSON of plan, drift and apply holds (DESIGN, section 3). Secrets show as `(sensitive)`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from reconciler.core.advice import Command
from reconciler.core.context import Context
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import SENSITIVE, Action, Change, Owed
from reconciler.core.steps import PLATFORM, OutputRef, Plan, Result, SecretRef, Step, Template, UnlessRecorded
from reconciler.reports.advice import advice_documents
from reconciler.reports.diagnostics import diagnostic_documents

if TYPE_CHECKING:
    from reconciler.services.budget import Budget

SUMMARY = (
    Action.CREATE,
    Action.RESTORE,
    Action.ADOPT,
    Action.UPDATE,
    Action.EXTEND,
    Action.SNAPSHOT,
    Action.SET,
    Action.SUSPEND,
    Action.STOP,
    Action.START,
    Action.RESTART,
    Action.DELETE,
    Action.RETAIN,
    Action.FORGET,
    Action.NOOP,
    Action.REFUSED,
)


def context_document(context: Context) -> dict[str, Any]:
    return {**asdict(context), "at": context.at.isoformat()}


def plan_document(plan: Plan, *, diagnostics: Sequence[Diagnostic] | None = None) -> dict[str, Any]:
    """`diagnostics` replaces the plan's own, where more became known."""
    document: dict[str, Any] = {
        "changes": [_change(change) for change in plan.changes],
        "steps": [_step(step) for step in plan.steps],
        "owed": [owed_document(owed) for owed in plan.owed],
        "diagnostics": diagnostic_documents(plan.diagnostics if diagnostics is None else diagnostics),
        "summary": summarise(plan),
    }
    if plan.outside:
        document["outside"] = plan.outside
    if plan.providers:
        document["providers"] = dict(plan.providers)
    if plan.moves:
        document["moves"] = [
            {"from": str(move.source), "to": str(move.target), "id": move.id} for move in plan.moves
        ]
    return document


def drift_document(
    plan: Plan,
    unmanaged: Sequence[Change] = (),
    *,
    without_manifest: int = 0,
    only_new: bool = False,
    diagnostics: Sequence[Diagnostic] | None = None,
) -> dict[str, Any]:
    """See `DriftReport`."""
    document = plan_document(plan, diagnostics=diagnostics)
    del document["steps"]
    if only_new:
        document["only_new"] = True
    if without_manifest:
        document["without_manifest"] = without_manifest
    document["unmanaged"] = [
        {
            "address": str(change.address),
            "path": field.path,
            "before": shown(field.before),
            "after": shown(field.after),
            "id": change.id,
        }
        for change in unmanaged
        for field in change.fields
    ]
    return document


def apply_document(
    plan: Plan,
    results: Sequence[Result],
    owed: Sequence[Owed],
    *,
    head: str = "",
    ended: str = "done",
    diagnostics: Sequence[Diagnostic] | None = None,
) -> dict[str, Any]:
    """`head`: the state's, afterwards. `ended`: see `ApplyReport`."""
    document = plan_document(plan, diagnostics=diagnostics)
    document["owed"] = [owed_document(item) for item in owed]
    document["results"] = [_result(result) for result in results]
    if ended != "done":
        document["ended"] = ended
    if head:
        document["head"] = head
    return document


def budget_document(budget: "Budget | None") -> dict[str, Any]:
    """Nothing where no limit holds."""
    if budget is None or not budget.is_limited:
        return {}
    return {"budget": {"requests": budget.requests, "limited_s": round(budget.limited_s, 3)}}


def failure_document(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """When there is no plan to show."""
    return {"diagnostics": diagnostic_documents(diagnostics)}


def summarise(plan: Plan) -> dict[str, int]:
    """How often each action is done: a change may do several. What needs nothing counts as noop."""
    counts = Counter(action for change in plan.changes for action in change.actions)
    counts[Action.NOOP] = plan.unchanged + counts[Action.NOOP]
    return {action.value: counts[action] for action in SUMMARY}


def shown(value: Any) -> Any:
    """`value` with references as templates and secrets hidden."""
    if isinstance(value, SecretRef):
        return SENSITIVE
    if isinstance(value, OutputRef | Template):
        return str(value)
    if isinstance(value, Mapping):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value


def owed_document(owed: Owed) -> dict[str, Any]:
    return owed.to_json() | _advice(owed.advice)


def owed_words(work: str, certainty: str) -> str:
    return work if certainty == "owed" else f"{work} ({certainty} whether needed)"


def _advice(advice: Sequence[Command]) -> dict[str, Any]:
    return {"advice": advice_documents(advice)} if advice else {}


def _change(change: Change) -> dict[str, Any]:
    document: dict[str, Any] = {
        "address": str(change.address),
        "action": change.action.value,
        "fields": [
            {
                "path": field.path,
                "before": shown(field.before),
                "after": shown(field.after),
                "effect": field.effect.value,
            }
            for field in change.fields
        ],
        "impact": change.impact.value,
        "reason": change.reason,
    }
    if change.id is not None:
        document["id"] = change.id
    if change.also:
        document["also"] = [action.value for action in change.also]
    return document | _advice(change.advice)


def _step(step: Step) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": step.id,
        "address": str(step.address),
        "method": step.call.method,
        "path": str(step.call.path),
        "body": shown(step.call.body),
        "after": list(step.after),
    }
    if step.call.service != PLATFORM:
        document["service"] = step.call.service
    if step.for_each is not None:
        document["for_each"] = str(step.for_each.over)
    if step.wait is not None:
        until = step.wait.until
        document["wait"] = {
            "path": str(step.wait.read.path),
            "field": until.field,
            "until": list(until.any_of) if until.at_least is None else {"at_least": until.at_least},
            "timeout_s": step.wait.timeout_s,
        }
    if step.effect.owes is not None:
        document["owes"] = {"work": step.effect.owes.work, "when": step.effect.owes.when}
    if step.if_owed:
        document["if_owed"] = step.if_owed.machine
    if isinstance(step.guard, UnlessRecorded):
        document["unless_recorded"] = step.guard.field
    if step.lane:
        document["lane"] = step.lane
    return document


def _result(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = {
        "address": str(result.address),
        "step": result.step,
        "outcome": result.outcome,
    }
    if result.id:
        document["id"] = result.id
    if result.error:
        document["error"] = result.error
    if result.note:
        document["note"] = result.note
    return document
