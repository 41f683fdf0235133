"""When a volume is extended before it is full: `lifecycle.grow`, within its range.

Whether the last extend has had its effect is seen by the blocks alone, and a file system may get them much
later: with the restart that is owed, or when the volume is attached. Until then the volume stays as full as
it was, and is not extended again.
"""

import math
from collections.abc import Mapping

from reconciler.core.percents import Grow
from reconciler.kinds.base import Subject
from reconciler.kinds.roles import GIB, Look
from reconciler.kinds.volume.spec import SizeRange

GREW_FROM = "grew_from_bytes"  # the field of a record: the file system's size before the last extend

# A file system keeps up to a tenth of its volume for itself. One that is smaller does not use all of it yet.
_LEAST_SHARE = 0.9


def grown_gb(subject: Subject) -> int | None:
    """Return the size to extend the volume to now, in GB; None: it is not to grow, or not yet."""
    grow, size, live = _grow(subject), subject.spec.size_gb, subject.live
    total, used = live.total_bytes, live.used_bytes
    if grow is None or not isinstance(size, SizeRange) or total is None or used is None:
        return None
    if live.state != "created" or used * 100 < grow.at * total or not _has_grown(subject):
        return None
    step_gb = min(math.ceil(live.size_gb * grow.by / 100), grow.most_gb_per_day - subject.extended_gb)
    after_gb = min(live.size_gb + step_gb, size.max)
    return after_gb if after_gb > live.size_gb else None


def _grow(subject: Subject) -> Grow | None:
    return subject.resource.grow if subject.resource is not None else None


def _has_grown(subject: Subject) -> bool:
    """Whether the file system has all the space of its volume, as far as that can be told."""
    record, live = subject.record, subject.live
    applied = record.applied if record is not None else {}
    if record is not None and record.obligations:
        return False  # a restart is owed
    if live.size_gb < (applied.get("size_gb") or 0):
        return False  # the answer was given before the last extend
    least = _LEAST_SHARE * live.size_gb * GIB
    return bool(live.total_bytes >= least and live.total_bytes > (applied.get(GREW_FROM) or 0))


def recorded(subject: Subject) -> Mapping[str, int]:
    """Return what the record holds of an extend, so that its effect can be seen later."""
    total: int | None = subject.live.total_bytes
    return {GREW_FROM: total} if _grow(subject) is not None and total is not None else {}


def why(subject: Subject) -> str:
    """Return why it is extended, for the plan."""
    grow = _grow(subject)
    assert grow is not None
    return f"{Look.of(subject.live, subject.now)}, and it grows at {grow.at} %"
