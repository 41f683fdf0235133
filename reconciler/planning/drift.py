"""Compares records with live objects: differences on the platform that we did not make."""

from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.model import Action, Change, Effect, FieldChange, Resource, StateRecord, weightiest_first
from reconciler.core.wire import parse_time
from reconciler.kinds.base import REPLACED, Kind, value_at
from reconciler.kinds.roles import unmanaged
from reconciler.planning.declared import split_ignored

_MOVED = "changed on the platform, not by us"
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
    """The platform's word for the state of an object that it shows."""
    return str(getattr(live, "state", None) or live.status)


def change_of(
    kind: Kind, record: StateRecord, resource: Resource | None, fields: Sequence[FieldChange]
) -> Change:
    """The change that puts `fields` back, among them objectives that are missed.

    Nothing puts them back where no manifest names the object.
    """
    if resource is None:
        advice, reason = accepting(kind, record, fields), f"{_MOVED}; no manifest names it"
        reason += "".join(f": `{accept}` records what is there" for accept in advice)
        return Change(
            record.address, Action.REFUSED, tuple(fields), reason=reason, id=record.id, advice=advice
        )
    actions = {_undoing(kind, change) for change in fields}
    action, *also = [Action.REFUSED] if Action.REFUSED in actions else weightiest_first(actions)
    missed = [field for field in fields if field.path in resource.objectives]
    reasons = [_MOVED] if len(missed) < len(fields) else []
    reasons += [f"the objective `{field.path}: {field.before}` is missed" for field in missed]
    reason = "; ".join(reasons)
    return Change(record.address, action, tuple(fields), reason=reason, id=record.id, also=tuple(also))


def accepting(kind: Kind, record: StateRecord, fields: Sequence[FieldChange]) -> tuple[Command, ...]:
    """The command that records `fields` as they are; () where one of them is never right."""
    never = {watch.path for watch in kind.watched if not watch.is_recorded}
    found = (command("drift", "--accept", record.address),)
    return () if any(field.path in never for field in fields) else found


def unmanaged_change(kind: Kind, record: StateRecord, resource: Resource, live: Any) -> Change | None:
    """The fields that no manifest names and that moved since we last saw them: for information only."""
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


def watched_fields(kind: Kind, record: StateRecord, live: Any) -> Iterator[FieldChange]:
    """The fields that show that the object is not well, is another one, or is not where it was."""
    for watch in kind.watched:
        now = value_at(live, watch.path)
        before = watch.good or record.applied.get(watch.path)
        if watch.owed:
            before = next((owed.machine for owed in record.obligations if owed.machine), None)
            now = now or "none"  # being attached to no machine is drift, too
        if now is None or before is None:
            continue
        if now in watch.bad if watch.bad else not is_same(before, now):
            yield FieldChange(watch.path, before, now, Effect.REFUSED)


def first_seen(kind: Kind, record: StateRecord | None, live: Any) -> dict[str, Any]:
    """Values to compare later looks with that the record does not hold yet."""
    known = record.applied if record is not None else {}
    new = {watch.path: value_at(live, watch.path) for watch in kind.watched if watch.is_recorded}
    return {path: value for path, value in new.items() if value is not None and path not in known}


def is_as_recorded(kind: Kind, record: StateRecord, live: Any) -> bool:
    """Whether `live` equals `record` in all that it holds, also in the moment when it was made."""
    made = record.applied.get(REPLACED.path)
    same = made is not None and is_same(made, value_at(live, REPLACED.path))
    return same and not moved_fields(kind, record, None, live)


def warnings_of(
    kind: Kind, record: StateRecord, resource: Resource | None, fields: Sequence[FieldChange]
) -> Iterator[Diagnostic]:
    """A warning for each of `fields` that is watched."""
    for field in fields:
        for watch in kind.watched:
            if watch.path != field.path or (watch.bad and field.after not in watch.bad):
                continue
            accept, said = command("drift", "--accept", record.address), watch.says
            ends = f"; if it is right, `{accept}` records it" if watch.is_recorded else ""
            yield warning(
                watch.code,
                f"`{record.address}` ({record.id}): {said.format(before=field.before, after=field.after)}",
                resource.span("metadata", "name") if resource is not None else None,
                help=f"look at it on the platform{ends}",
                advice=(accept,) if watch.is_recorded else (),
                about=(record.address,),
            )


def is_same(before: Any, now: Any) -> bool:
    """Whether two values are equal; of moments, whatever their precision."""
    if before == now or not isinstance(before, str) or not isinstance(now, str):
        return bool(before == now)
    moments = [parse_time(before), parse_time(now)]
    known = [moment.replace(microsecond=0) for moment in moments if moment is not None]
    return len(known) == 2 and known[0] == known[1]


def _undoing(kind: Kind, change: FieldChange) -> Action:
    """The action that brings a field back that moved from `before` to `after`; REFUSED where none does."""
    if change.path in kind.objectives:
        return kind.objectives[change.path]
    field = next((field for field in kind.fields if field.name == change.path), None)
    if field is not None and field.undo is not None:
        return field.undo(change)
    return _ACTION_OF.get(change.effect, Action.REFUSED)


def moved_fields(kind: Kind, record: StateRecord, resource: Resource | None, live: Any) -> list[FieldChange]:
    """The recorded fields that show another value, in the order of the kind's `fields`; then watched ones."""
    fields = []
    held = kind.held(record, resource)
    for field in kind.fields:
        recorded = held.get(field.name)
        now = getattr(live, field.name, None) if field.source == "live" else None
        if recorded in (None, "") or now is None or now == recorded:
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
    return [*fields, *watched_fields(kind, record, live)]
