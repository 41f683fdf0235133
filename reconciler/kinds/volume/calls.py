"""Calls that change a volume that is there, and the wait for what is under way.

Source: platform API, 2.2 and 4.2; platform notes, "Volumes".
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reconciler.core.model import FieldChange
from reconciler.core.steps import Call, Condition, Owes, Read, Step, Wait
from reconciler.core.wire import many, one
from reconciler.kinds.base import Subject, segment
from reconciler.kinds.steps import absolute
from reconciler.kinds.volume.snapshots import volume_path
from reconciler.services.machines.wire.volume import GONE_STATES, Volume


@lru_cache  # resources come app by app
def volumes_read(app: str) -> Read:
    return Read(f"/v1/apps/{segment(app)}/volumes", many(Volume))


def settled(subject: Subject, reply_path: str | None) -> Wait:
    return Wait(
        Read(volume_path(subject.address, subject.known_id()), one(Volume)),
        Condition("state", any_of=("created",), fails=tuple(sorted(GONE_STATES))),
        subject.lifecycle.timeout_s,
        reply_path=reply_path,
    )


def update_step(subject: Subject, fields: Mapping[str, Any]) -> Step:
    path = volume_path(subject.address, subject.known_id())
    return absolute(subject, "update", Call("PUT", path, fields), applied=fields)


def extend_step(subject: Subject, grow: FieldChange) -> Step:
    path = volume_path(subject.address, subject.known_id())
    extend = volume_path(subject.address, subject.known_id(), "/extend")
    because = f"extended from {grow.before} to {grow.after} GB"
    return absolute(
        subject,
        "extend",
        Call("PUT", extend, {"size_gb": grow.after}),
        applied={"size_gb": grow.after, "snapshot": None},
        owes=Owes("restart", "needs_restart", because, "volume.attached_machine_id"),
        wait=Wait(
            Read(path, one(Volume)), Condition("size_gb", at_least=grow.after), subject.lifecycle.timeout_s
        ),
    )
