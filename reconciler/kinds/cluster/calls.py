"""Reads of a cluster (until it is ready, to find a lost create, and its backups), and its restore.

Backups are shown by capability `postgres.backups`.
Source: platform API, 2.1, 3.1 and 4.1; platform notes, "Postgres".
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, error, has_errors, warning
from reconciler.core.model import Action, Address, StateRecord
from reconciler.core.steps import FOUND_ID, Ask, Call, Condition, Find, OutputRef, Read, Wait
from reconciler.core.wire import many, one, parse_time
from reconciler.kinds.base import Decision, Subject, path_of, segment
from reconciler.kinds.cluster.spec import PostgresClusterSpec, Restore
from reconciler.kinds.manifest import Locate, is_patched, point_at_patch
from reconciler.kinds.steps import create
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


ID_FORM = r"[a-z0-9]{16}"
PLATFORM_ID = re.compile(ID_FORM)

SOURCE_ID = "restored_from"  # the field of a record: the platform id of the restore's source


def check_restore(spec: PostgresClusterSpec, span: Locate) -> Iterable[Diagnostic]:
    """Yield the problems of a manifest that has the field `restore`."""
    written = spec.model_fields_set  # fields with an invalid value too
    for name in sorted((written & type(spec).model_fields.keys()) - {"restore", "name"}):
        problem = error(
            "not-with-restore",
            f"`spec.{name}` cannot be chosen for a restored cluster",
            span("spec", name),
            label="the platform takes it from the source",
            help="remove it; a restore takes `from`, `backup_id` or `pitr_time`, and `name`",
        )
        excluding = [("spec", "restore"), ("spec", name)]
        is_own = is_patched(("spec", name), span)  # not the restore, if one of them is
        yield problem if is_own else point_at_patch(problem, excluding, excluding, span)
    if spec.restore is None:
        return
    moments = spec.restore.model_fields_set - {"from_"}
    both = moments >= {"backup_id", "pitr_time"}
    if both or not moments:
        count = "both are" if both else "none is"
        problem = error(
            "one-of",
            f"a restore needs one of `backup_id` and `pitr_time`, but {count} given",
            span("spec", "restore", "pitr_time") if both else span("spec", "restore"),
            help="keep the one that names the moment to restore",
        )
        offered = [("spec", "restore", name) for name in ("backup_id", "pitr_time")]
        yield point_at_patch(problem, offered if both else [], offered, span)


def may_be_restored(restore: Restore, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
    """Whether the cluster of `record` may have been created by `restore`, as far as is known."""
    if restore.from_ == record.id:
        return False  # its own origin
    known = record.applied.get("restore")
    if known is None:
        return "org_slug" not in record.applied
    want = restore.model_dump(by_alias=True, exclude_none=True)
    if {**known, "from": ""} != {**want, "from": ""}:
        return False
    ids = [PLATFORM_ID.fullmatch(restore["from"]) is not None for restore in (known, want)]
    if any(ids):  # a name and an id may be of one cluster
        return not all(ids) or bool(known["from"] == want["from"])
    return alias(Address("PostgresCluster", known["from"]), Address("PostgresCluster", want["from"]))


def renamed_source(record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
    """Return `record.applied` after `moved`: a restored cluster names its source by the new address."""
    origin = record.applied.get("restore") or {}
    after = moved.get(Address("PostgresCluster", origin["from"])) if origin else None
    if after is None:
        return record.applied
    return {**record.applied, "restore": {**origin, "from": after.name}}


def names_of_source(record: StateRecord | None) -> Collection[str]:
    """Return the address and the id of the cluster that ours was restored from, as far as they are known."""
    if record is None or not (origin := record.applied.get("restore")):
        return ()
    named = origin["from"]
    address = named if PLATFORM_ID.fullmatch(named) else str(Address(record.address.kind, named))
    return dict.fromkeys(filter(None, (address, record.applied.get(SOURCE_ID))))


def same_restore(record: StateRecord, want: Mapping[str, Any]) -> bool:
    """Whether `want` is the restore that created the recorded cluster.

    A name and an id may be of one source. Where the id of a named source is not known, any id may be its id.
    """
    known, id = record.applied["restore"], record.applied.get(SOURCE_ID)
    if {**known, "from": ""} != {**want, "from": ""}:
        return False
    ids = [PLATFORM_ID.fullmatch(restore["from"]) is not None for restore in (known, want)]
    if want["from"] in (known["from"], id):
        return True
    return ids[0] != ids[1] and (ids[0] or id is None)


def decide_restore(subject: Subject, restore: Restore) -> Decision:
    """Decide to create the cluster from a backup or past moment of another one."""
    source: str | OutputRef = (
        segment(restore.from_)
        if PLATFORM_ID.fullmatch(restore.from_)
        else OutputRef(str(Address("PostgresCluster", restore.from_)), "id")
    )
    source_id = restore.from_ if isinstance(source, str) else replace(source, or_kept=True)
    origin = restore.model_dump(by_alias=True, exclude_none=True)
    body = {name: value for name, value in origin.items() if name != "from"}
    body["name"] = subject.platform_name()
    step = create(
        subject,
        Call("POST", path_of("/v1/postgres/", source, "/restore"), body),
        name="restore",
        id_path="data.id",
        object_path="data",
        applied={"name": body["name"], "restore": origin, SOURCE_ID: source_id},
        recovery=recovery(subject, _organization(source), {"name": body["name"]}),
        wait=ready(subject),
        size_gb=None,  # that of its source
    )
    problems = tuple(check_restore_point(subject))
    reason = f"from {restore.from_} at {restore.backup_id or restore.pitr_time}"
    if has_errors(problems):
        return Decision(Action.REFUSED, diagnostics=problems, reason=problems[0].message)
    return Decision(Action.RESTORE, (step,), reason=reason, diagnostics=problems)


def _organization(source: str | OutputRef) -> OutputRef | None:
    """Return the slug of a restored cluster's organization: that of its source, if a manifest declares it."""
    return OutputRef(source.source, "organization.slug") if isinstance(source, OutputRef) else None
