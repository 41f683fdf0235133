"""Volumes: created, forked, restored, updated, extended, snapshotted, deleted. Never shrunk, never replaced.

Source: platform API, 2.2 to 2.4 and 4.2; platform notes, "Volumes" and "Snapshots".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import (
    Action,
    Address,
    Deletion,
    Effect,
    FieldChange,
    Impact,
    Reference,
    StateRecord,
    weightiest_first,
)
from reconciler.core.steps import FOUND_ID, Call, Condition, Find, OutputRef, Owes, Read, Step, Wait
from reconciler.core.wire import many, one
from reconciler.kinds.base import ANY, Kind, Moves, OwnCall, Subject, compare_fields, segment
from reconciler.kinds.declared import Declared, declared_fields
from reconciler.kinds.manifest import Field, Spec
from reconciler.kinds.restarts import (
    is_loose,
    loose_reads,
    machine_reads,
    restart_calls,
    restart_remarks,
    restart_steps,
    settled_by_a_stop,
)
from reconciler.kinds.roles import ComesBack, HasDetails, HasObjectives, Importable, MadeFromOthers, TakesTime
from reconciler.kinds.steps import absolute, answer_of, create, delete, wait_only
from reconciler.kinds.volume.origins import (
    check_origin,
    may_be_from,
    renamed_origin,
    size_not_given,
    size_of_source,
    why_created,
)
from reconciler.kinds.volume.snapshots import (
    await_snapshot,
    left_after_delete,
    listed_snapshots,
    newest_snapshot,
    newest_usable,
    snapshot_before,
    snapshot_due,
    snapshot_step,
    snapshots_read,
    volume_path,
)
from reconciler.kinds.volume.spec import SizeRange, VolumeSpec
from reconciler.services.machines.wire.volume import GONE_STATES, Snapshot, Volume

DEFAULT_SIZE_GB = 3
UNSETTLED_STATES = ("creating", "restoring", "hydrating", "recovering", "extending")


_ONCE = "nothing happens: it is used when the volume is created, and not looked at afterwards"
_NEW_VOLUME = "create a new volume under another name and move the data"

_SHARES_ZONES = "`require_unique_zone: false`"
_NO_ZONE = (
    "each volume of one name needs a hardware zone of its own: where no unique zone is left, write "
    f"{_SHARES_ZONES}"
)

# What create takes that the platform never returns, or that nobody can change afterwards.
_CREATE_FIELDS = ("region", "encrypted", "fstype", "auto_backup_enabled", "snapshot_retention")
_SENT_ONLY_FIELDS = ("machines_only", "require_unique_zone", "compute")
_SHOWN = ("region", "size_gb", "encrypted", "auto_backup_enabled", "snapshot_retention")  # by every answer

# What a volume has when its create says nothing else, and keeps for its life. Source: platform API, 4.2.
_FIXED_DEFAULTS = {"encrypted": True, "fstype": "ext4"}


def _known_fstype(want: str, live: str) -> bool:
    """An empty type is what mutation replies and unmounted volumes show: not known."""
    return live == "" or live == want


def _fits(want: int | SizeRange, live: int) -> bool:
    return want.min <= live <= want.max if isinstance(want, SizeRange) else live == want


class VolumeKind(Importable, MadeFromOthers, TakesTime, ComesBack, HasDetails, HasObjectives, Kind):
    name = "Volume"
    Spec = VolumeSpec
    in_app = True
    adoptable = True
    lifecycle = ("deletion", "snapshot_before", "timeout_s", "restart", "ignore")
    objectives: ClassVar = {"snapshot_max_age_h": Action.SNAPSHOT}
    id_form = r"vol_[A-Za-z0-9_-]+"
    fields = (
        Field("size_gb", Effect.GROW, equal=_fits),
        Field("name", Effect.REFUSED, help=_NEW_VOLUME),
        Field("region", Effect.REFUSED, help=_NEW_VOLUME),
        Field("encrypted", Effect.REFUSED, help=_NEW_VOLUME),
        Field("fstype", Effect.REFUSED, help=_NEW_VOLUME, equal=_known_fstype),
        Field("auto_backup_enabled", Effect.IN_PLACE),
        Field("snapshot_retention", Effect.IN_PLACE),
        Field("machines_only", Effect.REFUSED, "record", help=_NEW_VOLUME),
        Field("require_unique_zone", Effect.REFUSED, "record", help=_NEW_VOLUME),
        Field("compute", Effect.REFUSED, "record", help=_NEW_VOLUME),
    )
    remarks: ClassVar = {
        "size_gb.min": "the volume is extended to it if the live size is smaller; a smaller value changes "
        "nothing",
        "size_gb.max": "refused if the live size is larger; any other value changes nothing",
        "count": "with a larger value, more are created; with a smaller one, the volumes with the highest "
        "indexes are treated as removed from the manifests",
        "from_": _ONCE,
        "snapshot_id": _ONCE,
        "source_volume_id": _ONCE,
    }
    example: ClassVar = {"region": "ams", "size_gb": 10, "snapshot_retention": 14}

    # --- while loading ---

    def references(self, spec: VolumeSpec, address: Address) -> Iterable[Reference]:
        if spec.from_ is not None and spec.from_.volume is not None:
            yield Reference(Address("Volume", spec.from_.volume, address.app), ("spec", "from", "volume"))

    def check(self, spec: VolumeSpec, span: Callable[..., Span | None]) -> Iterable[Diagnostic]:
        size = spec.size_gb
        if isinstance(size, SizeRange) and size.min > size.max:
            yield error(
                "out-of-range",
                f"`size_gb.min` ({size.min}) is larger than `size_gb.max` ({size.max})",
                span("spec", "size_gb", "min"),
            )
        yield from check_origin(spec.origin, spec.from_, spec.model_fields_set, span)

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return self.listing(address.app or "", capabilities)

    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        return {"snapshots": Read(volume_path(address, id, "/snapshots"), many(Snapshot))}

    def extra_reads(self, subject: Subject) -> Sequence[Read]:
        """The snapshots, where an objective or a snapshot that we took before depends on them.

        And the machine, where an owed restart depends on it.
        """
        if not subject.live.present:
            return ()
        took = subject.record is not None and subject.record.applied.get("snapshot") is not None
        again = took and (subject.resource is None or "extend" in subject.lifecycle.snapshot_before)
        reads = [snapshots_read(subject)] if again else self.objective_reads(subject)
        if subject.resource is None:
            return reads
        return (*reads, *machine_reads(subject, grows=self._grows(subject)), *loose_reads(subject))

    def _grows(self, subject: Subject) -> bool:
        want_gb, live_gb = subject.spec.wanted_size_gb, subject.live.size_gb
        return want_gb is not None and live_gb is not None and want_gb > live_gb

    def hints(self, subject: Subject) -> Sequence[Read]:
        """The snapshots of a volume that is to be deleted, or was destroyed: its data is in them only."""
        deletes = subject.resource is None and subject.live.present and not _holder(subject)
        destroyed = subject.resource is not None and not subject.live.present
        return [snapshots_read(subject)] if deletes or destroyed else []

    def objective_reads(self, subject: Subject) -> Sequence[Read]:
        wished = subject.resource is not None and "snapshot_max_age_h" in subject.resource.objectives
        return [snapshots_read(subject)] if wished else []

    def missed(self, subject: Subject) -> Sequence[FieldChange]:
        """A snapshot that is being made is as good as one: nothing more can be done."""
        assert subject.resource is not None
        if snapshot_due(subject) is None or any(
            item.progress == "running" for item in listed_snapshots(subject)
        ):
            return ()
        limit_h, newest = subject.resource.objectives["snapshot_max_age_h"], newest_snapshot(subject)
        shown = newest.isoformat() if newest is not None else None
        return (FieldChange("snapshot_max_age_h", limit_h, shown, Effect.IN_PLACE),)

    def match(self, spec: VolumeSpec, address: Address) -> Mapping[str, Any]:
        match = {"name": spec.name or address.name}
        return match if spec.region is None else {**match, "region": spec.region}

    def fits(self, spec: VolumeSpec, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
        """A volume that is to be made from other data is another one, where it is known what ours is from."""
        return may_be_from(spec.origin, record, alias)

    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """A volume that was forked from a renamed one names it."""
        return renamed_origin(record, moved)

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        if action is Action.DELETE:
            return ("id", "present", "size_gb", "attached_machine_id", "attached_alloc_id")
        grows = subject.resource is not None and self._grows(subject)
        if subject.resource is not None and (restart_steps(subject) or (grows and is_loose(subject))):
            return ("id", "present", "attached_machine_id")  # what was reviewed may restart no other machine
        return ("id", "present")

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read:
        return Read(f"/v1/apps/{segment(place)}/volumes", many(Volume))

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """Also the defaults that somebody can change: what is not written is not watched."""
        spec, comments = declared_fields(VolumeSpec, (*_SHOWN, "fstype"), live, {**_FIXED_DEFAULTS, **given})
        if live.state in UNSETTLED_STATES:
            comments[()] = (f"it was still {live.state} when it was read",)
        zone = f"zone {live.zone}" if live.zone else "its zone is not known"
        return Declared(place, live.name, spec, comments, apart=zone)

    # --- what apply holds every plan to ---

    def own_calls(self, subject: Subject, scope: str) -> Iterable[OwnCall]:
        all_of_app = f"/v1/apps/{subject.address.app}/volumes"
        yield OwnCall("GET", all_of_app)
        destroyed = subject.live is not None and not subject.live.present
        if subject.record is None or destroyed:
            yield OwnCall("GET", f"{all_of_app}/{ANY}")  # what a lost create may have made
            yield OwnCall("POST", all_of_app)
        if subject.record is None:
            return
        path = volume_path(subject.address, subject.record.id)
        yield OwnCall("GET", path)
        yield OwnCall("GET", f"{path}/snapshots")
        yield OwnCall("PUT", path)
        yield OwnCall("PUT", f"{path}/extend")
        yield OwnCall("POST", f"{path}/snapshots")
        yield OwnCall("DELETE", path)
        if subject.live is not None and subject.live.attached_machine_id:
            yield from restart_calls(subject)

    # --- deciding ---

    def create(self, subject: Subject) -> Moves:
        reason = why_created(subject.spec.origin)
        taken = _zones_taken(subject)
        if taken:
            reason += f"; needs a zone other than {', '.join(taken)} ({_SHARES_ZONES} lets it share one)"
        return self._create(subject, Action.CREATE, reason)

    def again(self, subject: Subject) -> Moves | None:
        """As large as it was, which no snapshot of it exceeds, and in its region."""
        origin, gone = subject.spec.origin, subject.live
        usable = {item.id for item in listed_snapshots(subject) if item.usable}
        if origin is None or origin.snapshot_id not in usable:
            return None
        reason = f"{gone.id} was destroyed; its data comes back from its snapshot {origin.snapshot_id}"
        new = replace(subject, live=None, record=None)
        return self._create(new, Action.RESTORE, reason, least_gb=gone.size_gb or 0)

    def how_again(self, subject: Subject) -> str:
        newest = newest_usable(subject)
        if newest is None:
            return ""
        spec: VolumeSpec = subject.spec
        lines = [f"`from: {{snapshot_id: {newest.id}}}`"]
        if spec.region is None:
            lines.append(f"`region: {subject.live.region}`")
        instead = " in place of its origin" if spec.origin is not None else ""
        made = f" (made {newest.created_at})" if newest.created_at else ""
        others = "; take it out again before `count` grows" if spec.count is not None else ""
        return (
            f"to restore its newest snapshot{made} at this address, write "
            f"{' and '.join(lines)} into `spec`{instead} and apply{others}; "
        )

    def _create(self, subject: Subject, action: Action, reason: str, *, least_gb: int = 0) -> Moves:
        """`least_gb`: what the origin is known to need."""
        spec: VolumeSpec = subject.spec
        body: dict[str, Any] = {"name": subject.platform_name()}
        for name in (*_CREATE_FIELDS, *_SENT_ONLY_FIELDS):
            value = getattr(spec, name)
            if value is not None:
                body[name] = value.model_dump(exclude_none=True) if isinstance(value, Spec) else value
        applied = dict(body)
        if spec.wanted_size_gb is not None:
            body["size_gb"] = applied["size_gb"] = spec.wanted_size_gb
        origin = spec.origin
        applied["origin"] = None  # known to be none, unlike that of a volume that was adopted
        remarks: list[Diagnostic] = []
        if origin is not None:
            applied["origin"] = origin.model_dump(exclude_none=True)
            if origin.volume is not None:
                source = str(Address("Volume", origin.volume, subject.address.app))
                body["source_volume_id"] = OutputRef(source, "id")
                body.setdefault("size_gb", OutputRef(source, "size_gb"))
            else:
                body |= origin.model_dump(exclude_none=True)
                known_gb = least_gb or size_of_source(origin, subject) or 0
                if known_gb > (spec.wanted_size_gb or 0) and known_gb <= (spec.largest_size_gb or known_gb):
                    body["size_gb"] = applied["size_gb"] = known_gb
                elif "size_gb" not in body:
                    body["size_gb"] = DEFAULT_SIZE_GB
                    remarks.append(size_not_given(subject, DEFAULT_SIZE_GB))
        match = self.match(spec, subject.address)
        listing = self.read(subject.address, None, subject.capabilities)
        assert listing is not None
        # What the platform chose where nobody said anything: drift names what moves of it.
        chosen = [name for name in _SHOWN if name not in body]
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
                one=Read(volume_path(subject.address, FOUND_ID), one(Volume)),
            ),
            wait=_settled(subject, reply_path=""),
            if_refused=_NO_ZONE if _zones_taken(subject) or (spec.count or 1) > 1 else "",
        )
        return Moves(action, (step,), reason=reason, diagnostics=tuple(remarks))

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        differing = compare_fields(self.fields, subject)
        if differing and differing[0].path == "size_gb":
            differing[0] = _size_change(subject)
        return differing

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Moves:
        steps: list[Step] = []
        actions: list[Action] = []
        impact, reasons = Impact.ONLINE, []
        if subject.live.state in UNSETTLED_STATES:
            steps.append(self.settled(subject))
            reasons.append(f"still {subject.live.state}")
        in_place = {field.path: field.after for field in fields if field.effect is Effect.IN_PLACE}
        grow = next((field for field in fields if field.effect is Effect.GROW), None)
        stale = snapshot_due(subject)
        if stale is not None:
            running = [item.id for item in listed_snapshots(subject) if item.progress == "running"]
            reasons.append(f"{stale}, but one is running" if running else stale)
            steps.append(await_snapshot(subject, running[-1]) if running else snapshot_step(subject))
        elif grow is not None and "extend" in subject.lifecycle.snapshot_before:
            steps.append(snapshot_before(subject))
        if any(step.mutates for step in steps):
            actions.append(Action.SNAPSHOT)
        if in_place:
            actions.append(Action.UPDATE)
            steps.append(_update_step(subject, in_place))
        if grow is not None:
            actions.append(Action.EXTEND)
            impact = Impact.RESTART if subject.live.attached_machine_id else Impact.ONLINE
            steps.append(_extend_step(subject, grow))
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
        return Moves(
            action,
            tuple(steps),
            tuple(fields),
            impact,
            "; ".join(reasons),
            restart_remarks(subject, grows=grow is not None),
            settles=settled_by_a_stop(subject),
            also=tuple(also),
        )

    def settled(self, subject: Subject) -> Step:
        return wait_only(subject, _settled(subject, reply_path=None))

    def remove(self, subject: Subject) -> Moves:
        holder = _holder(subject)
        if holder:
            problem = error(
                "volume-attached",
                f"volume `{subject.address}` is attached to {holder} and cannot be deleted",
                help="detach it (remove the machine) first; the platform refuses until then",
            )
            return Moves(Action.REFUSED, diagnostics=(problem,), reason=f"attached to {holder}")
        before = [snapshot_before(subject)] if "delete" in subject.lifecycle.snapshot_before else []
        path = volume_path(subject.address, subject.known_id())
        left = f"left the manifests with lifecycle deletion: {Deletion.DELETE}"
        return Moves(
            Action.DELETE,
            (*before, delete(subject, path, Read(path, one(Volume)))),
            impact=Impact.DATA_LOSS,
            reason=f"{left}; {left_after_delete(subject)}",
            also=(Action.SNAPSHOT,) if any(step.mutates for step in before) else (),
        )

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        if change.path != "size_gb":
            return super().refusal(subject, change)
        return error(
            "volume-shrink",
            f"volume `{subject.address.name}` cannot shrink from {change.before} GB to {change.after} GB",
            subject.span("spec", "size_gb"),
            label=f"the live size is {change.before} GB",
            help=f"set `size_gb: {change.before}`, or {_NEW_VOLUME}",
        )


def _zones_taken(subject: Subject) -> list[str]:
    """The zones in which the list shows a volume of this name, where the new one may share none."""
    if subject.spec.require_unique_zone is False:
        return []
    wanted = KIND.match(subject.spec, subject.address)
    named = [
        item
        for item in subject.beside
        if item.present and all(getattr(item, name) == value for name, value in wanted.items())
    ]
    return sorted({item.zone for item in named if item.zone})


def _holder(subject: Subject) -> str:
    return subject.live.attached_machine_id or subject.live.attached_alloc_id or ""


def _size_change(subject: Subject) -> FieldChange:
    want, largest, live = subject.spec.wanted_size_gb, subject.spec.largest_size_gb, subject.live.size_gb
    if live < want:
        return FieldChange("size_gb", live, want, Effect.GROW)
    return FieldChange("size_gb", live, largest, Effect.REFUSED)


def _settled(subject: Subject, reply_path: str | None) -> Wait:
    return Wait(
        Read(volume_path(subject.address, subject.known_id()), one(Volume)),
        Condition("state", any_of=("created",), fails=tuple(sorted(GONE_STATES))),
        subject.lifecycle.timeout_s,
        reply_path=reply_path,
    )


def _update_step(subject: Subject, fields: Mapping[str, Any]) -> Step:
    path = volume_path(subject.address, subject.known_id())
    return absolute(subject, "update", Call("PUT", path, fields), applied=fields)


def _extend_step(subject: Subject, grow: FieldChange) -> Step:
    path = volume_path(subject.address, subject.known_id())
    extend = volume_path(subject.address, subject.known_id(), "/extend")
    return absolute(
        subject,
        "extend",
        Call("PUT", extend, {"size_gb": grow.after}),
        applied={"size_gb": grow.after, "snapshot": None},
        owes=Owes(
            "restart",
            "needs_restart",
            f"extended from {grow.before} to {grow.after} GB",
            if_silent=not is_loose(subject),
        ),
        wait=Wait(
            Read(path, one(Volume)), Condition("size_gb", at_least=grow.after), subject.lifecycle.timeout_s
        ),
    )


KIND = VolumeKind()
