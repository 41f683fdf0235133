"""The backups of a cluster, where capability `postgres.backups` shows them.

Source: platform notes, "Postgres".
"""

from collections.abc import Sequence
from typing import Any

from reconciler.core.steps import Read
from reconciler.core.wire import many, parse_time
from reconciler.kinds.base import Subject, segment
from reconciler.services.machines.wire.cluster import ClusterBackup


def backups_read(id: str) -> Read:
    return Read(f"/v1/postgres/{segment(id)}/backups", many(ClusterBackup))


def listed_backups(subject: Subject) -> Sequence[Any] | None:
    """The backups that were asked for; None: they were not, or could not be read."""
    return subject.extra.get(many(ClusterBackup))


def left_after_delete(subject: Subject) -> str:
    """What stands between the cluster's delete and the loss of all its data, as a plan says it.

    The platform documents no backup on demand, so none is taken first.
    """
    backups = listed_backups(subject)
    if backups is None:
        why = (
            "its backups cannot be read"
            if "postgres.backups" in subject.capabilities
            else "only capability `postgres.backups` shows its backups"
        )
        return f"no backup is taken first; {why}: nothing known brings its data back"
    finished = [(when, item) for item in backups if (when := parse_time(item.finished_at)) is not None]
    if not finished:
        return "no backup is taken first, and no finished one is listed: nothing known brings its data back"
    newest = max(finished, key=lambda pair: pair[0])[1]
    return (
        f"no backup is taken first; the newest one is {newest.id} of {newest.finished_at}, and the platform "
        "does not say that backups outlive their cluster"
    )
