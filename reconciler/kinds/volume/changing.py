"""Decisions about an existing volume: changed in place, extended, grown, snapshotted, deleted.

Source: platform API, 2.2 to 2.4 and 4.2; platform notes, "Volumes".
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from reconciler.core.diagnostics import error
from reconciler.core.model import Action, Deletion, Effect, FieldChange, Impact, weightiest_first
from reconciler.core.percents import Grow
from reconciler.core.steps import Call, Condition, Owes, Read, Step, Wait
from reconciler.core.wire import many, one
from reconciler.kinds.base import Decision, Subject, segment
from reconciler.kinds.restarts import restart_remarks, restart_steps, settled_by_a_stop
from reconciler.kinds.roles import GIB, Look
from reconciler.kinds.steps import absolute, delete, names_of, wait_only
from reconciler.kinds.volume import origins, snapshots
from reconciler.kinds.volume.spec import SizeRange
from reconciler.services.machines.wire.volume import GONE_STATES, Volume


@lru_cache  # resources come app by app
def volumes_read(app: str) -> Read:
    """Return the list of an app's volumes, which shows all of them."""
    return Read(f"/v1/apps/{segment(app)}/volumes", many(Volume))


def settled(subject: Subject, reply_path: str | None) -> Wait:
    """Wait until the volume is `created`. `reply_path`: where the reply to the call holds the volume."""
    return Wait(
        Read(snapshots.volume_path(subject.address, subject.known_id()), one(Volume)),
        Condition("state", any_of=("created",), fails=tuple(sorted(GONE_STATES))),
        subject.lifecycle.timeout_s,
        reply_path=reply_path,
    )


def update_step(subject: Subject, fields: Mapping[str, Any]) -> Step:
    """Return the call that updates `fields` in place."""
    known = ((name, getattr(subject.live, name)) for name in _SAFEGUARDS if name in fields)
    lowers = [name for name, live in known if live is not None and fields[name] < live]
    uses = {"lowers": lowers, "names": names_of(subject)} if lowers else {}
    path = snapshots.volume_path(subject.address, subject.known_id())
    return absolute(subject, "update", Call("PUT", path, fields), applied=fields, uses=uses)


_SAFEGUARDS = ("snapshot_retention", "auto_backup_enabled")


def extend_step(subject: Subject, grow: FieldChange) -> Step:
    """Return the call that extends the volume; its reply may demand a restart of the machine."""
    path = snapshots.volume_path(subject.address, subject.known_id())
    extend = snapshots.volume_path(subject.address, subject.known_id(), "/extend")
    because = f"extended from {grow.before} to {grow.after} GB"
    total = subject.live.total_bytes if _grow_of(subject) is not None else None
    grew_from = {_GREW_FROM: total} if total is not None else {}
    return absolute(
        subject,
        "extend",
        Call("PUT", extend, {"size_gb": grow.after}),
        applied={"size_gb": grow.after, "snapshot": None} | grew_from,
        owes=Owes("restart", "needs_restart", because, "volume.attached_machine_id"),
        uses={"gb_added": grow.after - grow.before, "to_gb": grow.after},
        wait=Wait(
            Read(path, one(Volume)), Condition("size_gb", at_least=grow.after), subject.lifecycle.timeout_s
        ),
    )


UNSETTLED_STATES = ("creating", "restoring", "hydrating", "recovering", "extending")


def wait_settled(subject: Subject) -> Step:
    """Return a step without a call that waits for the running operation."""
    return wait_only(subject, settled(subject, reply_path=None))


def size_change(subject: Subject) -> FieldChange | None:
    """Return the difference in size (GB); a size above the wanted one is refused. None: no difference.

    A volume that is nearly full is to be larger, where its manifest says so.
    """
    want, live = subject.spec.wanted_size_gb, subject.live.size_gb
    if want is None or live is None:
        return None
    # No volume shrinks: a size below the recorded one was read before our last extend took effect.
    known = max(live, subject.record.applied.get("size_gb") or 0) if subject.record is not None else live
    largest = subject.spec.largest_size_gb
    if largest is not None and known > largest:
        return FieldChange("size_gb", known, largest, Effect.REFUSED)
    if live < want:
        return FieldChange("size_gb", live, max(want, known), Effect.GROW)
    grown = _grown_gb(subject)
    return FieldChange("size_gb", live, grown, Effect.GROW) if grown is not None else None


def change(subject: Subject, fields: Sequence[FieldChange]) -> Decision:
    """Decide in this order: wait, snapshot, update in place, extend, restart."""
    if not fields and _at_rest(subject):
        return Decision(Action.NOOP)
    steps: list[Step] = []
    actions: list[Action] = []
    impact, reasons = Impact.ONLINE, []
    if subject.live.state in UNSETTLED_STATES:
        steps.append(wait_settled(subject))
        reasons.append(f"still {subject.live.state}")
    in_place = {field.path: field.after for field in fields if field.effect is Effect.IN_PLACE}
    grow = next((field for field in fields if field.effect is Effect.GROW), None)
    stale = snapshots.why_due(subject)
    if stale is not None:
        running = [item.id for item in snapshots.listed(subject) if item.progress == "running"]
        reasons.append(f"{stale}, but one is being taken" if running else stale)
        steps.append(
            snapshots.await_one(subject, running[-1])
            if running
            else snapshots.take(subject, keep=grow is not None)
        )
    elif grow is not None and "extend" in subject.lifecycle.snapshot_before:
        steps.append(snapshots.take_before(subject))
    if any(step.mutates for step in steps):
        actions.append(Action.SNAPSHOT)
    if in_place:
        actions.append(Action.UPDATE)
        steps.append(update_step(subject, in_place))
    if grow is not None:
        actions.append(Action.EXTEND)
        impact = Impact.RESTART if subject.live.attached_machine_id else Impact.ONLINE
        steps.append(extend_step(subject, grow))
        if grow.before >= subject.spec.wanted_size_gb and (grows := _grow_of(subject)) is not None:
            reasons.append(f"{Look.of(subject.live, subject.now)}, and it grows at {grows.at} %")
        if impact is Impact.RESTART:
            reasons.append("the attached machine may have to restart to use the added space")
    owed = subject.record is not None and bool(subject.record.obligations)
    restarts = restart_steps(subject) if owed or grow is not None else []
    if restarts:
        actions.append(Action.RESTART)
    if restarts and grow is None:
        impact = Impact.RESTART
        reasons.append(f"machine {subject.live.attached_machine_id} owes a restart")
    steps += restarts
    action, *also = weightiest_first(actions) or (Action.NOOP,)
    return Decision(
        action,
        tuple(steps),
        tuple(fields),
        impact,
        "; ".join(reasons),
        restart_remarks(subject, grows=grow is not None),
        settles=settled_by_a_stop(subject),
        also=tuple(also),
    )


def _at_rest(subject: Subject) -> bool:
    """Whether no operation runs, nothing is owed and no objective is set, as for most volumes."""
    assert subject.resource is not None
    owed = subject.record is not None and subject.record.obligations
    return not owed and not subject.resource.objectives and subject.live.state not in UNSETTLED_STATES


def remove(subject: Subject) -> Decision:
    """Decide to delete the volume, after a snapshot; refused while it is attached."""
    holder = holder_of(subject)
    if holder:
        problem = error(
            "volume-attached",
            f"volume `{subject.address}` is attached to {holder} and cannot be deleted",
            help="detach it (remove the machine) first; the platform refuses until then",
        )
        return Decision(Action.REFUSED, diagnostics=(problem,), reason=f"attached to {holder}")
    before = [snapshots.take_before(subject)] if "delete" in subject.lifecycle.snapshot_before else []
    path = snapshots.volume_path(subject.address, subject.known_id())
    copy_of = origins.names_of_origin(subject.record)
    taken = [item.id for item in snapshots.listed(subject)]
    left = f"left the manifests with lifecycle deletion: {Deletion.DELETE}"
    return Decision(
        Action.DELETE,
        (*before, delete(subject, path, Read(path, one(Volume)), copy_of=copy_of, snapshots=taken)),
        impact=Impact.DATA_LOSS,
        reason=f"{left}; {snapshots.left_after_delete(subject)}",
        also=(Action.SNAPSHOT,) if any(step.mutates for step in before) else (),
    )


def holder_of(subject: Subject) -> str:
    """Return the id of the machine or allocation that the volume is attached to; "" for none."""
    return subject.live.attached_machine_id or subject.live.attached_alloc_id or ""


# --- growing before it is full: `lifecycle.grow`, within its range ---
#
# Whether the last extend has had its effect is seen by the blocks alone, and a file system may get them much
# later: with the restart that is owed, or when the volume is attached. Until then the volume stays as full as
# it was, and is not extended again.

_GREW_FROM = "grew_from_bytes"  # the field of a record: the file system's size before the last extend

# A file system keeps up to a tenth of its volume for itself. One that is smaller does not use all of it yet.
_LEAST_PERCENT = 90


def _grown_gb(subject: Subject) -> int | None:
    """Return the size to extend the volume to now, in GB; None: it is not to grow, or not yet."""
    grow, size, live = _grow_of(subject), subject.spec.size_gb, subject.live
    total, used = live.total_bytes, live.used_bytes
    if grow is None or not isinstance(size, SizeRange) or total is None or used is None:
        return None
    if live.state != "created" or used * 100 < grow.at * total or not _has_grown(subject):
        return None
    # Rounded up, in whole numbers: no float holds a size of any number of digits.
    step_gb = min(-(-live.size_gb * grow.by // 100), grow.most_gb_per_day - subject.extended_gb)
    after_gb = min(live.size_gb + step_gb, size.max)
    return after_gb if after_gb > live.size_gb else None


def _grow_of(subject: Subject) -> Grow | None:
    return subject.resource.grow if subject.resource is not None else None


def _has_grown(subject: Subject) -> bool:
    """Whether the file system has all the space of its volume, as far as that can be told."""
    record, live = subject.record, subject.live
    applied = record.applied if record is not None else {}
    if record is not None and record.obligations:
        return False  # a restart is owed
    if live.size_gb < (applied.get("size_gb") or 0):
        return False  # the answer was given before the last extend
    least = _LEAST_PERCENT * live.size_gb * GIB
    return bool(100 * live.total_bytes >= least and live.total_bytes > (applied.get(_GREW_FROM) or 0))
