"""Decides what one address needs, from everything known about it.

Anything uncertain is refused or left alone.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Span, as_warning, error, warning
from reconciler.core.model import (
    DELETION_SENT,
    Action,
    Address,
    Deletion,
    Effect,
    FieldChange,
    Resource,
    StateRecord,
)
from reconciler.core.steps import Step
from reconciler.kinds.base import Decision, Kind, Subject
from reconciler.kinds.roles import OnService, holds_secrets, is_remade, object_of
from reconciler.planning.declared import ignored_fields, split_ignored
from reconciler.planning.drift import accepting, moved_fields, shown_state
from reconciler.planning.match import Matched

# A new object may be invisible to reads for a while. Source: DESIGN; platform notes.
NOT_VISIBLE_YET = timedelta(seconds=180)
_TOO_NEW = "created a moment ago, not visible yet"

_LEFT = "left the manifests"


def may_be_invisible(record: StateRecord, now: datetime) -> bool:
    """Whether we made the object so recently that reads need not show it yet.

    A record from the future was made under another clock: that says nothing of its object.
    """
    return abs(now - record.created_at) < NOT_VISIBLE_YET


def many_missing(missing: Sequence[StateRecord], tracked: int) -> Diagnostic | None:
    """An error when more than one of `tracked` recorded objects vanished at once: then nothing may run.

    A token that lost its rights, or an outage, looks like that; one lost object is judged by itself. What a
    deletion was sent for is expected to be gone.
    """
    missing = [record for record in missing if not record.applied.get(DELETION_SENT)]
    if len(missing) < 2:
        return None
    named = ", ".join(sorted(f"`{record.address}`" for record in missing)[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    forget = command("state", "forget", "ADDRESS")
    return error(
        "many-missing",
        f"{len(missing)} of {tracked} recorded objects are missing at once: {named}{more}",
        help="check the token, the organization and the platform's status first: nothing is sent until they "
        f"appear again; if one was really deleted, drop its record with `{forget}`",
        advice=(forget,),
    )


def unprotected(record: StateRecord, resource: Resource) -> Iterator[Diagnostic]:
    """A warning where a manifest takes the protection from deletion off: nothing else would show it."""
    if record.lifecycle.deletion is Deletion.RETAIN and resource.lifecycle.deletion is Deletion.DELETE:
        yield warning(
            "protection-removed",
            f"`{record.address}` ({record.id}) may be deleted once its manifest is gone; it was protected",
            resource.span("lifecycle", "deletion"),
        )


def recorded_twice(
    kinds: Mapping[str, Kind],
    records: Mapping[Address, StateRecord],
    in_focus: Callable[[Address], bool] = lambda address: True,
) -> Iterator[Diagnostic]:
    """An error for each object that two records claim: what is done to one would be done to the other.

    One of the two is `in_focus`.
    """
    owners: dict[tuple[str, str | None, str], Address] = {}
    # Asked once for each kind: a hundred thousand records must not cost seconds.
    special = {
        name for name, kind in kinds.items() if kind.role(OnService) is not None or holds_secrets(kind)
    }
    for address, record in records.items():
        key: tuple[str, str | None, str] = (address.kind, None, record.id)
        if address.kind in special:
            key = object_of(kinds[address.kind], address, record.id, None, record)
        owner = owners.setdefault(key, address) if record.id else address
        if owner is not address and (in_focus(owner) or in_focus(address)):
            forget = tuple(command("state", "forget", claimant) for claimant in (owner, address))
            yield error(
                "recorded-twice",
                f"{record.id} is recorded as `{owner}` and as `{address}`",
                help="find out which one is right, and drop the other record: "
                f"`{forget[0]}` or `{forget[1]}`",
                advice=forget,
            )


def inferred_warning(record: StateRecord, span: Span | None = None) -> Diagnostic:
    """Said until two looks or a person confirm it: the id was found by evidence, after a lost answer."""
    adopt = command("resolve", record.address, "--adopt", record.id)
    return warning(
        "inferred-id",
        f"`{record.address}`: id {record.id} was inferred after a lost reply; "
        "it is not deleted before two later applies have seen it unchanged, or you confirm it",
        span,
        help=f"to confirm it now, look at the object; if it is yours, run `{adopt}`",
        advice=(adopt,),
    )


def decide(kind: Kind, subject: Subject, matched: Matched, *, listed: bool, now: datetime) -> Decision:
    """The decision about a wanted resource. `now` is our clock's time, by which records are dated.

    `listed`: whether a read shows objects of this kind; without one, the record stands for the object.
    """
    if matched.problem is not None:
        return refuse(matched.problem)
    if subject.record is None and subject.live is None:
        return kind.create(subject)
    if subject.record is None:
        return _adopt(kind, subject) if kind.takes_over else _compare(kind, subject)
    if listed and (subject.live is None or not subject.live.present):
        return _missing(kind, subject, now)
    return _compare(kind, subject)


def decide_left(kind: Kind, subject: Subject, *, listed: bool, now: datetime) -> Decision:
    """The decision about a recorded object that no manifest names any more."""
    record, live = subject.record, subject.live
    assert record is not None
    keeps = not subject.to_delete
    if keeps and not listed:
        return not_seen(kind.unreadable)
    deleted = record.applied.get(DELETION_SENT)
    if listed and live is None and kind.hides_at_first and may_be_invisible(record, now):
        if record.lifecycle.scratch:
            help = "run it again in three minutes"
            return refuse(error("unreadable", f"cannot read `{subject.address}`: {_TOO_NEW}", help=help))
        return not_seen(f"{_TOO_NEW}; its deletion was sent" if deleted else _TOO_NEW)
    if listed and (live is None or not live.present):
        # A GET that finds nothing counts where another shows what it was restored from: the token can see it.
        seen = live is not None or not kind.read_alone or any(subject.extra.values())
        if record.lifecycle.scratch and seen:
            return Decision(Action.FORGET, reason=f"gone: {_seen(live)}")
        if not keeps and live is None and deleted:
            return Decision(
                Action.FORGET, reason=f"{_LEFT}; its deletion was sent, and it does not exist any more"
            )
        if not keeps and live is not None:
            how = f"; {kind.how_again(subject)}".removesuffix("; ")
            return Decision(Action.FORGET, reason=f"{_LEFT}; the platform shows it as destroyed{how}")
        problem = gone(kind, subject)
        if record.lifecycle.scratch:
            return refuse(problem)
        reason = f"{_LEFT}; gone: {_seen(live)}; if that is right, run `{problem.advice[0]}`"
        return Decision(
            Action.RETAIN, reason=reason, diagnostics=(as_warning(problem),), advice=problem.advice
        )
    moved = moved_fields(kind, record, None, live) if live is not None else []
    changed = "".join(
        f"; `{change.path}` changed: {_as_text(change.before)} -> {_as_text(change.after)}"
        for change in moved
    )
    if keeps:
        reason = f"{_LEFT}; kept on the platform (lifecycle deletion: {Deletion.RETAIN}){changed}"
        advice = accepting(kind, record, moved) if moved else ()
        reason += "".join(f"; `{accept}` records what is there" for accept in advice)
        return Decision(Action.RETAIN, reason=reason, advice=advice)
    if record.lifecycle.scratch:
        named = getattr(live, "name", None)
        if named != subject.address.name:  # somebody may have taken it into use
            forget = command("state", "forget", subject.address)
            problem = error(
                "delete-inferred",
                f"`{subject.address}` ({record.id}) is called {named} on the platform, a name that its drill "
                "did not give: it is not deleted",
                help=f"if somebody uses it, run `{forget}`",
                advice=(forget,),
            )
            return refuse(problem)
    elif record.inferred:
        adopt = command("resolve", subject.address, "--adopt", record.id)
        problem = error(
            "delete-inferred",
            f"`{subject.address}` ({record.id}) has an inferred id and is protected from deletion",
            help=f"check that {record.id} is yours, then run `{adopt}`",
            advice=(adopt,),
        )
        return refuse(problem)
    decision = kind.remove(subject)
    return replace(decision, reason=decision.reason + changed)


def left_by_a_drill() -> Decision:
    """The decision about what a drill restored into and did not delete, in every plan but that of a drill."""
    drill = command("drill")
    reason = f"a drill that did not end has left it; the next one deletes it: `{drill}`"
    return Decision(Action.RETAIN, reason=reason, advice=(drill,))


def not_seen(why: str) -> Decision:
    """The decision to leave an object without a manifest as it is, since nobody could look at it.

    `why`: the cause.
    """
    return Decision(Action.RETAIN, reason=f"{_LEFT}; not read: {why}")


def refuse(*problems: Diagnostic, fields: tuple[FieldChange, ...] = ()) -> Decision:
    """The decision to do nothing, because of `problems`."""
    return Decision(Action.REFUSED, fields=fields, diagnostics=problems, reason=problems[0].message)


def _adopt(kind: Kind, subject: Subject) -> Decision:
    """The decision about an object that no record holds and the manifest matches."""
    decision = _compare(kind, subject)
    found = f"matches the existing {subject.live.id}"
    reason = f"{found}; {decision.reason}" if decision.reason else found
    if decision.action is Action.REFUSED:
        note = f"no record holds it: `{subject.address}` {found}"
        problems = tuple(replace(problem, notes=(*problem.notes, note)) for problem in decision.diagnostics)
        return replace(decision, reason=reason, diagnostics=problems)
    also = () if decision.action is Action.NOOP else (decision.action, *decision.also)
    return replace(decision, action=Action.ADOPT, also=also, reason=reason)


def _compare(kind: Kind, subject: Subject) -> Decision:
    """The decision about an object that is there, from the fields in which it differs."""
    differing, remarks = split_ignored(subject.resource, kind.compare(subject))
    fields = tuple(differing)
    if fields:
        refused = [kind.refusal(subject, change) for change in fields if change.effect is Effect.REFUSED]
        if refused:
            return refuse(*refused, *remarks, fields=fields)
    ignored = ignored_fields(subject.resource)
    if ignored and subject.resource is not None:
        resource = replace(subject.resource, spec=kind.as_found(subject, ignored))
        subject = replace(subject, resource=resource)
    decision = kind.change(subject, fields)
    return replace(decision, diagnostics=(*decision.diagnostics, *remarks)) if remarks else decision


def _until_visible(kind: Kind, subject: Subject) -> tuple[Step, ...]:
    """A step that waits until reads show the new object, for kinds that can."""
    step = kind.settled(subject)
    if step is None or step.wait is None:
        return ()
    timeout_s = min(step.wait.timeout_s, int(NOT_VISIBLE_YET.total_seconds()))
    return (replace(step, wait=replace(step.wait, timeout_s=timeout_s)),)


def _destroyed(kind: Kind, subject: Subject) -> Decision:
    """The decision about a recorded object that the platform shows as destroyed."""
    # Made again under the id that the manifest names, it would be refused by the next plan.
    named = subject.resource is not None and subject.resource.adopt_id is not None
    again = kind.again(subject) if not named else None
    return again if again is not None else refuse(gone(kind, subject))


def gone(kind: Kind, subject: Subject) -> Diagnostic:
    """An error for a recorded object that the platform shows as destroyed, or does not show."""
    record, live, resource = subject.record, subject.live, subject.resource
    assert record is not None
    forget, span = command("state", "forget", subject.address), subject.span("metadata", "name")
    if live is None and resource is not None:
        return error(
            "object-missing",
            f"`{subject.address}` ({record.id}) is recorded but not on the platform",
            span,
            help="check the token and the app first: it is not created again automatically; if it was really "
            f"deleted, run `{forget}`",
            advice=(forget,),
            about=(subject.address,),
        )
    how, place = kind.how_again(subject), ".".join(map(str, kind.id_path))
    if resource is None:
        check = "check the token first; " if live is None else ""
        cure = f"{check}{how}to drop its record, run `{forget}`"
    elif not kind.takes_over:
        cure = (
            f"if another machine exists, run `{forget}` and write its id as `{place}`; otherwise "
            "remove the manifest"
        )
    else:
        first = (
            f"remove `{place}` from the manifest, because that object does not exist any more; then, "
            if resource.adopt_id is not None
            else ""
        )
        cure = f"{first}{how}to let the next apply create an empty one, run `{forget}`"
    return error(
        "object-destroyed",
        f"`{subject.address}` ({record.id}) was destroyed outside reconcile: {_seen(live)}",
        span,
        help=cure,
        advice=(forget,),
        about=(subject.address,),
    )


def _seen(live: Any) -> str:
    """How the platform shows an object that is gone."""
    return (
        f"the platform shows it as {shown_state(live)}"
        if live is not None
        else "the platform does not show it"
    )


def _missing(kind: Kind, subject: Subject, now: datetime) -> Decision:
    """The decision about a recorded object that is destroyed, or that no read shows."""
    record = subject.record
    assert record is not None
    if is_remade(kind, subject):
        return kind.create(subject)
    if subject.live is not None:
        return _destroyed(kind, subject)
    if kind.hides_at_first and may_be_invisible(record, now):
        return Decision(Action.NOOP, _until_visible(kind, subject), reason=_TOO_NEW)
    return refuse(gone(kind, subject))


def _as_text(value: Any) -> str:
    """A value as a manifest may write it: words as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
