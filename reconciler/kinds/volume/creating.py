"""How a volume is created: empty, from other data, or again in the place of one that was destroyed.

Source: platform API, 4.2; platform notes, "Volumes".
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Action, Address
from reconciler.core.steps import FOUND_ID, Call, Find, OutputRef, Read
from reconciler.core.wire import many, one
from reconciler.kinds.base import Decision, Subject
from reconciler.kinds.manifest import Spec
from reconciler.kinds.steps import answer_of, create
from reconciler.kinds.volume import origins, snapshots
from reconciler.kinds.volume.changing import settled, volumes_read
from reconciler.kinds.volume.spec import VolumeSpec
from reconciler.services.machines.wire.volume import Snapshot, Volume

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
