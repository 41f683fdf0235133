"""How a volume is created (empty, from other data, or in the place of a destroyed one), changed and deleted.

Source: platform API, 2.2 to 2.4 and 4.2; platform notes, "Volumes".
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Action, Address, Deletion, Effect, FieldChange, Impact, weightiest_first
from reconciler.core.steps import FOUND_ID, Call, Condition, Find, OutputRef, Owes, Read, Step, Wait
from reconciler.core.wire import many, one
from reconciler.kinds.base import Decision, Subject, segment
from reconciler.kinds.manifest import Spec
from reconciler.kinds.restarts import restart_remarks, restart_steps, settled_by_a_stop
from reconciler.kinds.steps import absolute, answer_of, create, delete, names_of, wait_only
from reconciler.kinds.volume import growing, origins, snapshots
from reconciler.kinds.volume.spec import VolumeSpec
from reconciler.services.machines.wire.volume import GONE_STATES, Snapshot, Volume


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
    return absolute(
        subject,
        "extend",
        Call("PUT", extend, {"size_gb": grow.after}),
        applied={"size_gb": grow.after, "snapshot": None, **growing.recorded(subject)},
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
    grown = growing.grown_gb(subject)
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
        steps.append(snapshots.await_one(subject, running[-1]) if running else snapshots.take(subject))
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
        if grow.before >= subject.spec.wanted_size_gb:
            reasons.append(growing.why(subject))
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


DEFAULT_SIZE_GB = 3

SHARES_ZONES = "`require_unique_zone: false`"
_NO_ZONE = (
    "each volume with the same name needs its own hardware zone: if no unique zone is left, write "
    f"{SHARES_ZONES}"
)

# Fields of the create body; the platform never returns those of the second tuple.
_CREATE_FIELDS = ("region", "encrypted", "fstype", "auto_backup_enabled", "snapshot_retention")
_SENT_ONLY_FIELDS = ("machines_only", "require_unique_zone", "compute")
# Fields that every answer shows.
SHOWN = ("region", "size_gb", "encrypted", "auto_backup_enabled", "snapshot_retention")


def match_of(spec: VolumeSpec, address: Address) -> Mapping[str, Any]:
    """Return the fields that recognise a volume: its name, and its region where the manifest gives one."""
    match = {"name": spec.name or address.name}
    return match if spec.region is None else {**match, "region": spec.region}


def decide_create(subject: Subject, action: Action, reason: str, *, least_gb: int = 0) -> Decision:
    """Decide to create the volume. `least_gb`: the size that its origin needs, 0 if unknown."""
    spec: VolumeSpec = subject.spec
    body: dict[str, Any] = {"name": subject.platform_name()}
    for name in (*_CREATE_FIELDS, *_SENT_ONLY_FIELDS):
        value = getattr(spec, name)
        if value is not None:
            body[name] = value.model_dump(exclude_none=True) if isinstance(value, Spec) else value
    applied = dict(body)
    size_gb = None  # of a fork, where its source says it
    if spec.wanted_size_gb is not None:
        body["size_gb"] = applied["size_gb"] = spec.wanted_size_gb
    origin = spec.origin
    applied["origin"] = None  # known to have none; the origin of an adopted volume is unknown
    remarks: list[Diagnostic] = []
    if origin is not None:
        applied["origin"] = origin.model_dump(exclude_none=True)
        if origin.volume is not None:
            source = str(Address("Volume", origin.volume, subject.address.app))
            body["source_volume_id"] = OutputRef(source, "id")
            body.setdefault("size_gb", OutputRef(source, "size_gb"))
            size_gb = origins.size_of_source(origin, subject)
        else:
            body |= origin.model_dump(exclude_none=True)
            known_gb = least_gb or origins.size_of_source(origin, subject) or 0
            if known_gb > (spec.wanted_size_gb or 0) and known_gb <= (spec.largest_size_gb or known_gb):
                body["size_gb"] = applied["size_gb"] = known_gb
            elif "size_gb" not in body:
                body["size_gb"] = DEFAULT_SIZE_GB
                remarks.append(origins.size_not_given(subject, DEFAULT_SIZE_GB))
    match = match_of(spec, subject.address)
    listing = volumes_read(subject.address.app or "")
    # Values that the platform chooses are recorded, so that drift can name those that move.
    chosen = [name for name in (*SHOWN, "fstype", "created_at") if name not in body]
    applied |= {name: answer_of(subject, "create", name, or_kept=True) for name in chosen}
    step = create(
        subject,
        Call("POST", listing.path, body),
        id_path="id",
        object_path="",
        applied=applied,
        recovery=Find(
            listing,
            match,
            unattached=("attached_machine_id", "attached_alloc_id"),
            grows=("size_gb",),
            one=Read(snapshots.volume_path(subject.address, FOUND_ID), one(Volume)),
        ),
        wait=settled(subject, reply_path=""),
        size_gb=size_gb if isinstance(sent := body.get("size_gb", DEFAULT_SIZE_GB), OutputRef) else sent,
        if_refused=_NO_ZONE if zones_taken(subject) or (spec.count or 1) > 1 else "",
    )
    return Decision(action, (step,), reason=reason, diagnostics=tuple(remarks))


def how_again(subject: Subject) -> str:
    """Return how to restore a destroyed volume from its newest snapshot; ends with "; "."""
    newest = snapshots.newest_usable(subject)
    if subject.resource is None:
        read = many(Snapshot) in subject.extra
        none = "no usable snapshot is listed; " if read else "its snapshots cannot be read; "
        from_it = f"a new Volume manifest with `from: {{snapshot_id: {newest.id}}}`" if newest else ""
        if newest is None:
            return none
        return f"its newest snapshot is {snapshots.described(newest)}: {from_it} restores it; "
    first = _not_its_own(subject)
    if newest is None:
        return first
    spec: VolumeSpec = subject.spec
    lines = [f"`from: {{snapshot_id: {newest.id}}}`"]
    if spec.region is None:
        lines.append(f"`region: {subject.live.region}`")
    instead = " instead of its origin" if spec.origin is not None else ""
    made = f" (created {snapshots.lifetime(newest)})" if newest.created_at else ""
    others = "; remove it again before you increase `count`" if spec.count is not None else ""
    return (
        f"{first}to restore its newest snapshot{made} at this address, write "
        f"{' and '.join(lines)} into `spec`{instead} and apply{others}; "
    )


def _not_its_own(subject: Subject) -> str:
    """Return why the snapshot that the manifest names, if any, does not restore this volume's data."""
    origin, gone = subject.spec.origin, subject.live.id
    if origin is None or origin.snapshot_id is None:
        return ""
    id = origin.snapshot_id
    if many(Snapshot) not in subject.extra:
        return f"whether `{id}` is a snapshot of {gone} is not known: its snapshots cannot be read; "
    named = next((item for item in snapshots.listed(subject) if item.id == id), None)
    if named is None:
        return f"`{id}` is not a snapshot of {gone}; "
    return "" if named.usable else f"snapshot `{id}` of {gone} is {named.progress}; "


def zones_taken(subject: Subject) -> list[str]:
    """Return the zones that the new volume may not share: those of listed volumes with its name."""
    if subject.spec.require_unique_zone is False:
        return []
    named = subject.neighbours.matching(match_of(subject.spec, subject.address))
    return sorted({item.zone for item in named if item.present and item.zone})
