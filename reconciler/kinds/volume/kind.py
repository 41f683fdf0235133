"""Volumes: created, forked, restored, updated, extended, snapshotted, deleted. Never shrunk, never replaced.

Source: platform API, 2.2 to 2.4 and 4.2; platform notes, "Volumes" and "Snapshots".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Action, Address, Effect, FieldChange, Reference, Resource, StateRecord
from reconciler.core.steps import Read, Step
from reconciler.core.wire import many, parse_time
from reconciler.kinds.base import REPLACED, AtRest, Decision, Kind, Subject, Watched, compare_fields
from reconciler.kinds.manifest import Field, Locate
from reconciler.kinds.restarts import detached_reads, machine_reads, restart_steps
from reconciler.kinds.roles import Declared, FillsUp, Importable, declared_fields
from reconciler.kinds.volume import changing, creating, origins, snapshots
from reconciler.kinds.volume.spec import MOST_GB, SizeRange, VolumeSpec
from reconciler.services.machines.wire.volume import Snapshot, Volume

_ONCE = "nothing happens: it is used only when the volume is created"
_NEW_VOLUME = "create a new volume under another name and move the data"


# Values of a volume whose create does not give them; they never change. Source: platform API, 4.2.
_DEFAULT_GB = 3
_FIXED_DEFAULTS = {"encrypted": True, "fstype": "ext4"}


def _known_fstype(want: str, live: str) -> bool:
    """Replies to mutations and unmounted volumes show an empty type, which means: not known."""
    return live == "" or live == want


def _fits(want: int | SizeRange, live: int) -> bool:
    return want.min <= live <= want.max if isinstance(want, SizeRange) else live == want


class VolumeKind(Importable, FillsUp, Kind):
    """Volumes: listed per app, recognised by name and region, and never shrunk or replaced."""

    name = "Volume"
    Spec = VolumeSpec
    in_app = True
    adoptable = True
    lifecycle = (
        *("deletion", "snapshot_before", "timeout_s", "restart", "restart_within"),
        *("alert_at", "grow", "ignore"),
    )
    objectives: ClassVar = {"snapshot_max_age_h": Action.SNAPSHOT}
    at_rest = AtRest("state", frozenset({"created"}), unless_recorded=("snapshot",))
    watched = (
        Watched("state", "volume-failed", "its state is {after}", ("failed", "error"), "created"),
        Watched("snapshot_max_age_h", "no-snapshot", "no usable snapshot of it is listed", (None,)),
        Watched(
            "attached_machine_id",
            "restart-elsewhere",
            "machine {before} owes a restart; it is attached to {after}",
            owed=True,
        ),
        REPLACED,
    )
    model = Volume
    copies = "Snapshot"
    largest_gb = MOST_GB
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
        "size_gb.min": "if the live size is smaller, the volume is extended to this size; a smaller value "
        "changes nothing",
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

    def check(self, spec: VolumeSpec, span: Locate) -> Iterable[Diagnostic]:
        size = spec.size_gb
        if isinstance(size, SizeRange) and size.min > size.max:
            yield error(
                "out-of-range",
                f"`size_gb.min` ({size.min}) is larger than `size_gb.max` ({size.max})",
                span("spec", "size_gb", "min"),
            )
        if not origins.ORIGIN_FIELDS.isdisjoint(spec.model_fields_set):
            yield from origins.check_origin(spec.origin, spec.from_, spec.model_fields_set, span)

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return self.listing(address.app or "", capabilities)

    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        return {"snapshots": Read(snapshots.volume_path(address, id, "/snapshots"), many(Snapshot))}

    def extra_reads(self, subject: Subject) -> Sequence[Read]:
        """Return the GETs of snapshots and machine, where the decision depends on them.

        The snapshots matter to an objective, and to a snapshot that an earlier run took before its call; the
        machine matters to an owed restart.
        """
        if subject.live is None or not subject.live.present:
            return ()
        if subject.resource is None and not subject.to_delete:
            return ()
        took = subject.record is not None and subject.record.applied.get("snapshot") is not None
        again = took and (subject.resource is None or "extend" in subject.lifecycle.snapshot_before)
        reads = [snapshots.list_read(subject)] if again else self.objective_reads(subject)
        if subject.resource is None:
            return reads
        change = changing.size_change(subject)
        grows = change is not None and change.effect is Effect.GROW
        return (*reads, *machine_reads(subject, grows=grows), *detached_reads(subject))

    def hints(self, subject: Subject) -> Sequence[Read]:
        """Return the GET of snapshots of a volume that goes or was destroyed: only they hold its data."""
        if subject.live is None or not subject.live.present:
            return [snapshots.list_read(subject)]
        goes = subject.to_delete and not changing.holder_of(subject)
        return [snapshots.list_read(subject)] if goes else []

    def objective_reads(self, subject: Subject) -> Sequence[Read]:
        wished = subject.resource is not None and "snapshot_max_age_h" in subject.resource.objectives
        return [snapshots.list_read(subject)] if wished else []

    def missed(self, subject: Subject) -> Sequence[FieldChange]:
        """A running snapshot counts as one: nothing more can be done."""
        assert subject.resource is not None
        if snapshots.why_due(subject) is None or any(
            item.progress == "running" for item in snapshots.listed(subject)
        ):
            return ()
        limit_h, newest = subject.resource.objectives["snapshot_max_age_h"], snapshots.newest_at(subject)
        shown = newest.isoformat() if newest is not None else None
        return (FieldChange("snapshot_max_age_h", limit_h, shown, Effect.IN_PLACE),)

    def due(self, subject: Subject) -> Mapping[str, datetime]:
        assert subject.resource is not None
        limit_h = subject.resource.objectives.get("snapshot_max_age_h")
        due_at = snapshots.due_at(subject, limit_h) if limit_h is not None else None
        return {"snapshot_max_age_h": due_at} if due_at is not None else {}

    def most_gb(self, spec: VolumeSpec) -> int | None:
        return spec.size_gb.max if isinstance(spec.size_gb, SizeRange) else None

    def size_gb(self, fields: Mapping[str, Any]) -> int | None:
        """A volume without an origin is of the platform's default size; another one of that of its origin."""
        size, default = fields.get("size_gb"), None if origins.ORIGIN_FIELDS & fields.keys() else _DEFAULT_GB
        return size.min if isinstance(size, SizeRange) else size or default

    def copied(self, copy: Snapshot) -> tuple[datetime, int] | None:
        at = parse_time(copy.created_at) if copy.usable else None
        return (at, copy.size or 0) if at is not None else None

    def match(self, spec: VolumeSpec, address: Address) -> Mapping[str, Any]:
        return creating.match_of(spec, address)

    def fits(self, spec: VolumeSpec, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
        """A volume of another origin is another one, where the origin of ours is known."""
        return origins.may_be_from(spec.origin, record, alias)

    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """A volume that was forked from a renamed one names it."""
        return origins.renamed_origin(record, moved)

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        """Before a delete, size and attachment must not have moved; before a restart, the attachment."""
        if action is Action.DELETE:
            return ("id", "present", "size_gb", "attached_machine_id", "attached_alloc_id")
        if subject.resource is not None and restart_steps(subject):  # of the machine that was reviewed
            return ("id", "present", "attached_machine_id")
        return ("id", "present")

    # --- drills ---

    def why_no_drill(self, capabilities: frozenset[str], *, newest: bool) -> str:
        return "" if newest else "a volume has snapshots, and no points in time: write `from: newest`"

    def restoring(self, source: Resource, live: Any, copy: Any, before: datetime | None) -> Any:
        spec = {"region": live.region, "size_gb": live.size_gb, "from": {"snapshot_id": copy.id}}
        return VolumeSpec.model_validate(spec)

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read:
        return changing.volumes_read(place)

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """Changeable defaults are written, too: a field that is not written is not watched."""
        names, defaults = (*creating.SHOWN, "fstype"), {**_FIXED_DEFAULTS, **given}
        spec, comments = declared_fields(VolumeSpec, names, live, defaults)
        if live.state in changing.UNSETTLED_STATES:
            comments[()] = (f"it was still {live.state} when it was read",)
        zone = f"zone {live.zone}" if live.zone else "its zone is not known"
        return Declared(place, live.name, spec, comments, apart=zone)

    # --- deciding ---

    def create(self, subject: Subject) -> Decision:
        reason = origins.why_created(subject.spec.origin)
        taken = creating.zones_taken(subject)
        if taken:
            shared = creating.SHARES_ZONES
            reason += f"; needs a zone other than {', '.join(taken)} ({shared} lets it share one)"
        return creating.decide_create(subject, Action.CREATE, reason)

    def again(self, subject: Subject) -> Decision | None:
        """The new volume is as large as the old one, which no snapshot of it exceeds, and in its region."""
        origin, gone = subject.spec.origin, subject.live
        usable = {item.id for item in snapshots.listed(subject) if item.usable}
        if origin is None or origin.snapshot_id not in usable:
            return None
        reason = f"{gone.id} was destroyed; its data is restored from its snapshot {origin.snapshot_id}"
        new = replace(subject, live=None, record=None)
        return creating.decide_create(new, Action.RESTORE, reason, least_gb=gone.size_gb or 0)

    def how_again(self, subject: Subject) -> str:
        return creating.how_again(subject)

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        size = changing.size_change(subject)
        others = [change for change in compare_fields(self.fields, subject) if change.path != "size_gb"]
        return [size, *others] if size is not None else others

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        return changing.change(subject, fields)

    def settled(self, subject: Subject) -> Step:
        return changing.wait_settled(subject)

    def remove(self, subject: Subject) -> Decision:
        return changing.remove(subject)

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


KIND = VolumeKind()
