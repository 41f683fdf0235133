"""Reads of a cluster: until it is ready, to find a lost create, and its backups.

Backups are shown by capability `postgres.backups`.
Source: platform API, 2.1 and 3.1; platform notes, "Postgres".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.steps import FOUND_ID, Ask, Condition, Find, OutputRef, Read, Wait
from reconciler.core.wire import many, one, parse_time
from reconciler.kinds.base import Subject, path_of, segment
from reconciler.services.machines.wire.cluster import Cluster, ClusterBackup

FAILED_STATUSES = ("failed", "error")  # "error" occurs where the document says "failed"

# Fields recorded when the cluster is first seen ready, so that later reads show a change.
FIRST_SEEN = (
    "organization.slug",
    "replicas",
    "created_at",
    "disk_size_gb",
    "pg_major_version",
    "postgis_enabled",
)


def ready(subject: Subject, reply_path: str | None = "data") -> Wait:
    """Wait until the cluster is ready. `reply_path`: where the reply to the call holds the cluster."""
    return Wait(
        Read(path_of("/v1/postgres/", id_segment(subject)), one(Cluster)),
        Condition("status", any_of=("ready",), fails=(*FAILED_STATUSES, "deleting", "deleted")),
        subject.lifecycle.timeout_s,
        reply_path=reply_path,
        kept=FIRST_SEEN,
        timed=True,
    )


def id_segment(subject: Subject) -> str | OutputRef:
    """Return the id as a segment of a path, or a reference to the future one."""
    known = subject.known_id()
    return segment(known) if isinstance(known, str) else known


def recovery(subject: Subject, org_slug: str | OutputRef | None, match: Mapping[str, Any]) -> Ask | Find:
    """Return how a lost create is settled: by the list of clusters, or by a person where there is none."""
    if "postgres.list" not in subject.capabilities or org_slug is None:
        return Ask()
    listing = Read(path_of("/v1/postgres?org_slug=", org_slug), many(Cluster))
    found = Read(path_of("/v1/postgres/", FOUND_ID), one(Cluster))
    return Find(listing, match, unattached=("attached_apps",), one=found)


def backups_read(id: str) -> Read:
    """Return the GET of the backups of the cluster `id` (capability `postgres.backups`)."""
    return Read(f"/v1/postgres/{segment(id)}/backups", many(ClusterBackup))


def listed_backups(subject: Subject) -> Sequence[Any] | None:
    """Return the backups that were asked for; None: they were not, or could not be read."""
    return subject.extra.get(many(ClusterBackup))


def left_after_delete(subject: Subject) -> str:
    """Return what can restore the cluster's data after its delete, as a plan says it.

    The platform documents no backup on demand, so none is taken first.
    """
    backups = listed_backups(subject)
    if backups is None:
        why = (
            "its backups cannot be read"
            if "postgres.backups" in subject.capabilities
            else "its backups can be read only with capability `postgres.backups`"
        )
        return f"no backup is taken first; {why}: no known backup can restore its data"
    finished = [(when, item) for item in backups if (when := item.usable_from) is not None]
    if not finished:
        return (
            "no backup is taken first, and no finished backup is listed: no known backup can restore its data"
        )
    newest = max(finished, key=lambda pair: pair[0])[1]
    return (
        f"no backup is taken first; the newest one is {newest.id} of {newest.finished_at}, and the platform "
        "does not say that backups outlive their cluster"
    )


def check_restore_point(subject: Subject) -> Iterator[Diagnostic]:
    """Yield the problems of the backup or moment to restore, as far as the source's backups show them.

    The recovery window is not documented. A moment in the future is certainly outside it (an error); one
    before the end of the first backup probably is (a warning).
    """
    restore, backups = subject.spec.restore, listed_backups(subject)
    if backups is None:
        return
    finished = sorted((when, item.id) for item in backups if (when := item.usable_from) is not None)
    newest = ", ".join(f"{id} from {when.isoformat()}" for when, id in reversed(finished[-3:])) or "none"
    listed = f"the newest finished backups of {restore.from_} are: {newest}"
    if restore.backup_id is not None:
        if all(item.id != restore.backup_id for item in backups):
            yield error(
                "restore-point",
                f"{restore.from_} has no backup {restore.backup_id}",
                subject.span("spec", "restore", "backup_id"),
                help=listed,
            )
        return
    moment = parse_time(restore.pitr_time)
    if moment is not None and moment > subject.now:
        yield error(
            "restore-point",
            f"{restore.pitr_time} is in the future",
            subject.span("spec", "restore", "pitr_time"),
            help="check the offset; a restore needs a time in the past",
        )
    elif moment is not None and finished and moment < finished[0][0]:
        yield warning(
            "restore-point",
            f"{restore.pitr_time} is before the first listed backup was finished: the platform may refuse it",
            subject.span("spec", "restore", "pitr_time"),
            help=listed,
        )
