"""What would take a run back: the edits of manifests, the plan that they would lead to, and what stays.

Nothing is taken back by itself. The manifests say what is wanted, so a run is taken back by writing in them
what was there before; this finds what that is, and plans it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import Plan
from reconciler.kinds import find_kinds
from reconciler.manifests.writing.rewrite import Edit, with_value
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.state.runs import PastRun

_STAYS = {
    "create": "without its manifest it stays on the platform, and is watched; to delete it, give it "
    "`lifecycle: {deletion: delete}`, apply, remove it, and approve the deletion by address",
    "restart": "a restart cannot be taken back",
    "snapshot": "a snapshot harms nothing; it goes when its retention ends",
    "set": "the value before is stored nowhere: put it back into its source, and apply",
    "delete": "declare it again with `from: {snapshot_id: …}`, if a snapshot of it is left",
}
ALIKE = {"fork": "create", "restore": "create", "provision": "create", "unset": "set"}


_Object = tuple[str, str, str]  # kind, scope and id


class Taken(Struct, frozen=True):
    """A field that the run changed: from `before` to `now`. `why`: why it stays; "" where it can go back.

    `address`: of the object now; `called`: in the run, before it was renamed.
    """

    address: Address
    called: Address
    field: str
    before: Any
    now: Any
    why: str = ""


class Undo(Struct, frozen=True):
    """`fields`: what the run changed; `stays`: the other steps, each with the reason why it stays.

    `plan`: what would be sent once the manifests say what was there before; None where nothing goes back.
    """

    fields: Sequence[Taken]
    stays: Sequence[tuple[str, str]]
    plan: Plan | None


async def plan_undo(project: Project, desired: Desired, run: PastRun, later: Sequence[PastRun]) -> Undo:
    """Plan the way back from `run`. `later`: the runs after it, oldest first. Sends nothing but GET."""
    state = await project.store.load()
    now = {_object(record.address, record.scope, record.id): record for record in state.records.values()}
    found = [
        field if field.address in desired.by_address else replace(field, why="no manifest declares it now")
        for field in _changed(run, later, now)
    ]
    plan = await _planned(project, desired, found)
    if plan is None or any(problem.severity is Severity.ERROR for problem in plan.diagnostics):
        found = [await _alone(project, desired, field) for field in found]
        going = [field for field in found if not field.why]
        plan = await _planned(project, desired, going)
    return Undo(found, list(_stays(run, {field.called for field in found})), plan)


def _changed(run: PastRun, later: Sequence[PastRun], now: Mapping[_Object, StateRecord]) -> Iterator[Taken]:
    """The fields of manifests that the run changed. What another run changed after it stays as it is now."""
    kinds, seen_later = find_kinds(), [dict(_records(one).values()) for one in later]
    begun = _records(run)
    for called in dict.fromkeys(call.address for call in run.calls if call.outcome == "done"):
        if called is None or str(called) not in begun:
            continue
        key, before = begun[str(called)]
        if key not in now:
            continue
        current = now[key]
        after = next((seen[key] for seen in seen_later if key in seen), current.applied)
        for name in kinds[called.kind].Spec.model_fields:
            old, new = before.get(name), after.get(name)
            if old in (None, "", new):  # a value that was not known then was not changed by the run
                continue
            why = "another run changed it again" if current.applied.get(name) != new else ""
            yield Taken(current.address, called, name, old, new, why)


def _object(address: Address, scope: str, id: str) -> _Object:
    """Names an object by what a rename leaves as it is."""
    return address.kind, scope, id


def _records(run: PastRun) -> Mapping[str, tuple[_Object, Mapping[str, Any]]]:
    """By address, the recorded objects when the run began, and what was applied to each."""
    records: Mapping[str, Any] = run.observed.get("records", {})
    return {
        address: (_object(Address.parse(address), record["scope"], record["id"]), record["applied"])
        for address, record in records.items()
    }


def _stays(run: PastRun, with_fields: set[Address]) -> Iterator[tuple[str, str]]:
    """The steps that no edit takes back. Those of an unknown outcome are for `resolve`."""
    for call in run.newest_calls:
        action = call.step.rpartition("#")[2]
        reason = _STAYS.get(ALIKE.get(action, action))
        if call.outcome in ("unknown", "repeatable"):
            yield call.step, "its outcome is unknown: settle that first"
        elif call.outcome != "done":
            yield call.step, f"it had no effect ({call.outcome})"
        elif reason is not None:
            yield call.step, reason
        elif call.address not in with_fields:
            yield call.step, "its object is not recorded now, or nothing tells what was there before"


async def _planned(project: Project, desired: Desired, fields: Sequence[Taken]) -> Plan | None:
    """The plan of manifests that say what was there before; None where one cannot say that."""
    resources: dict[Address, Resource] = {}
    for field in fields:
        if field.why:
            continue
        resource = resources.get(field.address, desired.by_address[field.address])
        edited = _with(resource, field)
        if isinstance(edited, Diagnostic):
            return None
        resources[field.address] = edited
    if not resources:
        return None
    wanted = [resources.get(resource.address, resource) for resource in desired.resources]
    return await make_plan(project, replace(desired, resources=wanted).with_targets(list(resources)))


async def _alone(project: Project, desired: Desired, field: Taken) -> Taken:
    """`field`, with the reason why it cannot go back, if the plan of it alone has one."""
    if field.why:
        return field
    edited = _with(desired.by_address[field.address], field)
    if isinstance(edited, Diagnostic):
        return replace(field, why=edited.message)
    plan = await _planned(project, desired, [field])
    problems = plan.diagnostics if plan is not None else ()
    why = next((problem.message for problem in problems if problem.severity is Severity.ERROR), "")
    return replace(field, why=why)


def _with(resource: Resource, field: Taken) -> Resource | Diagnostic:
    return with_value(Edit(resource, ("spec", field.field), field.before), find_kinds()[field.address.kind])
