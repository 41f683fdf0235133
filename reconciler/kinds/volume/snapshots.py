"""The snapshots of a volume: on demand, before a dangerous call, and by age.

Source: platform API, 2.4 and 4.2; platform notes, "Snapshots".
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.core.model import Address
from reconciler.core.steps import Call, Condition, Find, OutputRef, Read, Step, Wait
from reconciler.core.wire import many, parse_time
from reconciler.kinds.base import Subject, path_of, segment
from reconciler.kinds.steps import answer_of, create, wait_only
from reconciler.services.machines.wire.volume import Snapshot

_YEAR_ONE = datetime.min.replace(tzinfo=UTC)
SNAPSHOT_SERVES = timedelta(hours=1)  # a snapshot taken before a call serves for retries of the call so long


def volume_path(address: Address, id: str | OutputRef, suffix: str = "") -> Any:
    """Return the path of the volume `id`, which may be known only later, with `suffix`."""
    return path_of(f"/v1/apps/{address.app}/volumes/", segment(id) if isinstance(id, str) else id, suffix)


def why_due(subject: Subject) -> str | None:
    """Return why `snapshot_max_age_h` is missed, or None. A new volume has that long for its first one."""
    assert subject.resource is not None
    limit_h = subject.resource.objectives.get("snapshot_max_age_h")
    if limit_h is None:
        return None
    due = due_at(subject, limit_h)
    if due is not None and subject.now <= due:
        return None
    return f"no usable snapshot from the last {limit_h} h"


def due_at(subject: Subject, limit_h: int) -> datetime | None:
    """Return when the newest snapshot will be `limit_h` hours old; None if its age is unknown.

    Without a snapshot, the age of the volume counts, up to a day: the platform takes one every day.
    """
    newest, made_at = newest_at(subject), parse_time(subject.live.created_at)
    if newest is None and made_at is not None:
        return made_at + timedelta(hours=min(limit_h, 24))
    return newest + timedelta(hours=limit_h) if newest is not None else None


def newest_at(subject: Subject) -> datetime | None:
    """Return when the newest usable listed snapshot was taken; None: none, or its time is unknown."""
    newest = newest_usable(subject)
    return parse_time(newest.created_at) if newest is not None else None


def newest_usable(subject: Subject) -> Snapshot | None:
    """Return the newest listed snapshot that a volume can be created from; None: there is none."""
    usable = [item for item in listed(subject) if item.usable]
    return max(usable, key=lambda item: parse_time(item.created_at) or _YEAR_ONE, default=None)


def left_after_delete(subject: Subject) -> str:
    """Return what can restore the volume's data after its delete, as a plan says it."""
    newest = newest_usable(subject)
    first = "a snapshot is taken first" if "delete" in subject.lifecycle.snapshot_before else ""
    if newest is not None:
        return "; ".join(filter(None, (first, f"the newest snapshot is {described(newest)}")))
    if first:
        return first
    read = many(Snapshot) in subject.extra
    none = "no usable snapshot is listed" if read else "its snapshots cannot be read"
    return f"{none}, and none is taken first: no known snapshot can restore its data"


def described(snapshot: Snapshot) -> str:
    """Return the snapshot's id, and its times where they are known."""
    return f"{snapshot.id} from {lifetime(snapshot)}" if snapshot.created_at else snapshot.id


def lifetime(snapshot: Snapshot) -> str:
    """Return when the snapshot was taken, and until when the platform keeps it, if that is known."""
    made_at, days = parse_time(snapshot.created_at), snapshot.retention_days
    until = made_at + timedelta(days=days) if made_at is not None and days is not None else None
    return f"{snapshot.created_at}{f', kept until {until:%Y-%m-%dT%H:%M:%SZ}' if until else ''}"


def list_read(subject: Subject) -> Read:
    """Return the list of the volume's snapshots."""
    return Read(volume_path(subject.address, subject.known_id(), "/snapshots"), many(Snapshot))


def listed(subject: Subject) -> Sequence[Any]:
    """Return the snapshots that `extra_reads` or `hints` asked for, if one did."""
    return subject.extra.get(many(Snapshot), ())


def take_before(subject: Subject) -> Step:
    """Return the step that gives the dangerous call its snapshot: one already taken for it, or a new one.

    An unfinished snapshot without a status is not waited for: it may have failed. If it is really
    running, the platform refuses another one, and `take` then waits for it.
    """
    taken = subject.record.applied.get("snapshot") if subject.record is not None else None
    for item in listed(subject):
        if item.id != taken or item.progress not in ("usable", "running"):
            continue
        made_at = parse_time(item.created_at)
        if made_at is None or subject.now - made_at <= SNAPSHOT_SERVES:
            return await_one(subject, item.id)
    return take(subject)


def await_one(subject: Subject, id: str) -> Step:
    """Return a step that waits until the snapshot `id` is usable."""
    return wait_only(subject, _usable(subject, id), "wait-snapshot")


def _usable(subject: Subject, item: str | OutputRef) -> Wait:
    return Wait(
        Read(volume_path(subject.address, subject.known_id(), "/snapshots"), many(Snapshot)),
        Condition("progress", any_of=("usable",), fails=("failed",)),
        subject.lifecycle.timeout_s,
        item=item,
    )


def take(subject: Subject, *, keep: bool = True) -> Step:
    """Return the call that takes a snapshot. It is refused while another one runs, which counts, too.

    `keep`: the record keeps its id, so that `take_before` finds it when the call after it is tried again.
    """
    id = answer_of(subject, "snapshot", "Msg.backup.graph_id")
    wait = _usable(subject, id)
    return create(
        subject,
        Call("POST", wait.read.path),
        name="snapshot",
        id_path=None,
        object_path=None,
        accepts=("snapshot_scheduled",),
        applied={"snapshot": id} if keep else {},
        recovery=Find(wait.read, keep="snapshot" if keep else ""),
        wait=wait,
    )
