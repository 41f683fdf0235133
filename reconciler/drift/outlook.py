"""What the recorded looks say of the time ahead: which objects will be full, when, and what size is enough.

Nothing is asked of the platform, so the same looks and manifests always give the same.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from reconciler.core.errors import Refused
from reconciler.core.model import ALERT_AT, Resource, StateRecord
from reconciler.drift.accept import rewritten
from reconciler.drift.acceptance import Accepted, Refusal
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import FillsUp, Look
from reconciler.manifests.writing.replace import Replacement, replace_files
from reconciler.manifests.writing.rewrite import Edit
from reconciler.project.looks import recorded_looks
from reconciler.project.trends import Trend, trend_of
from reconciler.state.store import State

_ALLOWED = 80  # percent: how full an object may be, where nothing says so
_STEP = 20  # percent of its size, likewise


class Outlook(Struct, frozen=True):
    """The time ahead of one object. `looks`: oldest first, those that show how full it is.

    `limit`: how many bytes it can hold, with the room that it grows into by itself. `full`, `alert`: when
    that is used, and when it is as full as its manifest allows; None: not in that time, or nobody knows.
    `proposed`: the edit that makes it large enough until then; None: nothing is to be edited, or only a
    person can.
    """

    resource: Resource
    record: StateRecord
    looks: Sequence[Look]
    trend: Trend | None = None
    limit: int = 0
    full: datetime | None = None
    alert: datetime | None = None
    proposed: Edit | None = None


def outlooks(state: State, resources: Iterable[Resource], until: datetime) -> Iterator[Outlook]:
    """Yield the outlook until then of each recorded object that can fill up."""
    kinds = find_kinds()
    for resource in resources:
        role = kinds[resource.address.kind].role(FillsUp)
        record = state.records.get(resource.address)
        if role is None or record is None:
            continue
        found = recorded_looks(state, resource.address.kind, record.id)
        yield outlook_of(role, resource, record, [look for look in found if look.percent is not None], until)


def outlook_of(
    role: FillsUp, resource: Resource, record: StateRecord, looks: Sequence[Look], until: datetime
) -> Outlook:
    """Return what `looks`, oldest first and all with a size, say of one object."""
    trend = trend_of(looks)
    if trend is None:
        return Outlook(resource, record, looks)
    last, allowed = looks[-1], resource.objectives.get(ALERT_AT)
    total, size_gb = last.total_bytes or 0, last.size_gb or 0
    most_gb = role.most_gb(resource.spec) if resource.grow is not None else None
    limit = total * max(most_gb or 0, size_gb) // max(size_gb, 1)
    full, alert = (
        when if when is not None and when <= until else None
        for when in (trend.full_at(limit), trend.full_at(total * allowed // 100) if allowed else None)
    )
    proposed = None
    if full is not None and size_gb and resource.grow is None:
        room, enough_gb = total / size_gb * (allowed or _ALLOWED) / 100, size_gb
        while trend.used_at(until) >= enough_gb * room:
            enough_gb += -(-enough_gb * _STEP // 100)
        larger = role.enlarged(resource, size_gb, enough_gb)
        if larger is not None and larger[0] in resource.spans and larger[0] not in resource.inherited:
            proposed = Edit(resource, *larger)
    return Outlook(resource, record, looks, trend, limit, full, alert, proposed)


def propose(found: Iterable[Outlook], root: Path, folder: Path) -> Sequence[Accepted]:
    """Write the manifests with the proposed sizes into `folder`, where they stand below `root`.

    Raises Refused, with no file written, where one cannot be edited.
    """
    edits: dict[tuple[str, int], Edit] = {}  # one for all objects of a manifest: the largest
    for edit in (outlook.proposed for outlook in found):
        if edit is not None:
            key = (edit.resource.file, edit.resource.spans[()])
            edits[key] = max(edit, edits.get(key, edit), key=lambda each: int(each.value))
    refused: list[Refusal] = []
    accepted, files = rewritten(list(edits.values()), root, refused)
    names = [os.path.relpath(file.path.resolve(), root.resolve()) for file in files]
    outside = [name for name in names if name.startswith("..")]
    if refused or outside:
        why = f"{outside[0]} is not in the project" if outside else "not every manifest can be edited"
        raise Refused(f"{why}; nothing was written", [refusal.why for refusal in refused])
    places = [folder / name for name in names]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_files(
        [
            Replacement(path, file.data, file.before if path.resolve() == file.path.resolve() else None)
            for path, file in zip(places, files, strict=True)
        ]
    )
    return accepted
