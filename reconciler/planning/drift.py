"""What moved on the platform without us: the record against the live object."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Action, Change, Effect, FieldChange, Resource, StateRecord, weightiest_first
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import HasObjectives, RecordsAnswers, unmanaged
from reconciler.planning.ignores import split_ignored

UNMANAGED = "changed on the platform; no manifest says what it should be"  # the reason of what is not managed

_ACTION_OF = {Effect.GROW: Action.EXTEND, Effect.IN_PLACE: Action.UPDATE, Effect.WRITE_ONLY: Action.SET}


def drift_of(
    kind: Kind, record: StateRecord, resource: Resource | None, live: Any
) -> tuple[Change | None, list[Diagnostic]]:
    """The change that brings the object back to its record (None: nothing moved), and what is ignored of it.

    `before` is the record, `after` is live. Growth inside the manifest's range is not drift, nor is what the
    manifest no longer says, nor a value that it now asks for: the next apply only records that one.
    """
    if live is None or not live.present:
        state = "not on the platform" if live is None else shown_state(live)
        gone = FieldChange("id", record.id, None, Effect.REFUSED)
        return Change(record.address, Action.REFUSED, (gone,), reason=state, id=record.id), []
    fields, remarks = split_ignored(resource, moved_fields(kind, record, resource, live))
    if not fields:
        return None, remarks
    return change_of(kind, record, resource, fields), remarks


def shown_state(live: Any) -> str:
    """What the platform calls the state of an object that it does show."""
    return str(getattr(live, "state", None) or live.status)


def change_of(
    kind: Kind, record: StateRecord, resource: Resource | None, fields: Sequence[FieldChange]
) -> Change:
    """The change that puts `fields` back, among them objectives that are missed.

    Nothing puts them back where no manifest names the object.
    """
    if resource is None:
        accept = command("drift", "--accept", record.address)
        reason = f"changed on the platform, not by us; no manifest names it: `{accept}` records what is there"
        return Change(
            record.address, Action.REFUSED, tuple(fields), reason=reason, id=record.id, advice=(accept,)
        )
    actions = {_undoing(kind, change) for change in fields}
    action, *also = [Action.REFUSED] if Action.REFUSED in actions else weightiest_first(actions)
    missed = [each for each in fields if each.path in _objectives(kind)]
    reasons = ["changed on the platform, not by us"] if len(missed) < len(fields) else []
    reasons += [f"the objective `{each.path}: {each.before}` is missed" for each in missed]
    reason = "; ".join(reasons)
    return Change(record.address, action, tuple(fields), reason=reason, id=record.id, also=tuple(also))


def unmanaged_change(kind: Kind, record: StateRecord, resource: Resource, live: Any) -> Change | None:
    """What moved of the fields that no manifest says, since we last saw them: for information only."""
    moved = []
    for field in unmanaged(kind, resource.spec):
        seen, now = record.applied.get(field.name), getattr(live, field.name, None)
        if seen in (None, "") or now is None or seen == now:
            continue
        if field.equal is None or not field.equal(seen, now):
            moved.append(FieldChange(field.name, seen, now, field.effect))
    return (
        Change(record.address, Action.NOOP, tuple(moved), reason=UNMANAGED, id=record.id) if moved else None
    )


def _objectives(kind: Kind) -> Mapping[str, Action]:
    role = kind.role(HasObjectives)
    return role.objectives if role is not None else {}


def _undoing(kind: Kind, change: FieldChange) -> Action:
    """What brings a field that moved from `before` to `after` back; REFUSED where nothing does."""
    if change.path in _objectives(kind):
        return _objectives(kind)[change.path]
    field = next((each for each in kind.fields if each.name == change.path), None)
    if field is not None and field.undo is not None:
        return field.undo(change)
    return _ACTION_OF.get(change.effect, Action.REFUSED)


def _held(kind: Kind, record: StateRecord, resource: Resource | None) -> Mapping[str, Any]:
    """What the record says of the fields that are managed: what drift is measured against."""
    answers = kind.role(RecordsAnswers)
    if answers is not None:
        return answers.held(record)
    if resource is None:
        return record.applied
    managed = resource.spec.model_fields_set
    return {name: value for name, value in record.applied.items() if name in managed}


def moved_fields(kind: Kind, record: StateRecord, resource: Resource | None, live: Any) -> list[FieldChange]:
    """The recorded fields that show another value, in the order of the kind's `fields`."""
    fields = []
    held = _held(kind, record, resource)
    for field in kind.fields:
        recorded = held.get(field.name)
        now = getattr(live, field.name, None) if field.source == "live" else None
        if recorded is None or now is None or now == recorded:
            continue
        want = getattr(resource.spec, field.name) if resource is not None else None
        if now == want:
            continue
        if field.equal is not None and field.equal(recorded if want is None else want, now):
            continue
        effect = field.effect
        if effect is Effect.GROW and now > recorded:
            effect = Effect.REFUSED  # to go back would be to shrink
        fields.append(FieldChange(field.name, recorded, now, effect))
    digest = record.applied.get("digest")
    live_digest = getattr(live, "digest", None)
    if digest is not None and live_digest is not None and digest != live_digest:
        fields.append(FieldChange("digest", digest, live_digest, Effect.WRITE_ONLY))
    return fields
