"""Postgres clusters: created or restored, then waited for. The platform documents no update and no delete.

Source: platform API, 2.1, 3.1 and 4.1; platform notes, "Postgres".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import (
    Action,
    Address,
    Effect,
    FieldChange,
    Impact,
    Reference,
    Resource,
    StateRecord,
    made_at,
)
from reconciler.core.steps import Call, Read, Step
from reconciler.core.wire import many, one, parse_time
from reconciler.core.words import since
from reconciler.kinds.base import REPLACED, Decision, Kind, Subject, Watched, compare_fields, path_of, segment
from reconciler.kinds.cluster import calls
from reconciler.kinds.cluster.spec import PostgresClusterSpec
from reconciler.kinds.manifest import Field, Locate
from reconciler.kinds.roles import Declared, HoldsData, Importable, declared_fields
from reconciler.kinds.steps import create, delete, wait_only
from reconciler.services.machines.wire.cluster import Cluster, ClusterBackup

# Values of a cluster whose create does not give them. Source: platform notes, "Postgres".
_DEFAULT_GB = 10
_DEFAULTS = {"disk_size_gb": _DEFAULT_GB, "pg_major_version": "16", "postgis_enabled": False}


_RESTORE_INSTEAD = (
    "the platform cannot change a cluster in place: write a new PostgresCluster manifest "
    "(with `restore: {from, pitr_time}` to carry the data over) and move the clients to it"
)


def _same_plan(want: str, live: str) -> bool:
    return want.casefold() == live.casefold()


class PostgresClusterKind(Importable, HoldsData, Kind):
    """Clusters: found by recorded id, by name where the platform lists them, and never changed in place."""

    name = "PostgresCluster"
    Spec = PostgresClusterSpec
    in_app = False
    adoptable = True
    lifecycle = ("deletion", "timeout_s", "ignore")
    read_alone = True
    id_form = calls.ID_FORM
    model = Cluster
    copies = "Backup"
    capabilities: ClassVar = {
        "postgres.list": "Lists the clusters of an organization: for `import`, to find a create whose "
        "reply was lost, and to report one that looks the same as yours (`lookalike`).",
        "postgres.delete": "Deletes a cluster. Without it, a cluster is deleted by hand.",
        "postgres.backups": "Lists the backups of a cluster: for `show`, and for the plans of a delete "
        "and of a restore.",
    }
    list_capability = "postgres.list"
    watched = (
        Watched("status", "cluster-failed", "its status is {after}", calls.FAILED_STATUSES, "ready"),
        Watched("organization.slug", "organization-changed", "it is in organization {after}, not {before}"),
        Watched("replicas", "replicas-changed", "the number of its replicas is {after}, not {before}"),
        REPLACED,
    )
    fields = (
        Field("plan", Effect.REFUSED, help=_RESTORE_INSTEAD, equal=_same_plan),
        Field("region", Effect.REFUSED, help=_RESTORE_INSTEAD),
        Field("name", Effect.REFUSED, help=_RESTORE_INSTEAD),
        Field("disk_size_gb", Effect.REFUSED, help=_RESTORE_INSTEAD),
        Field("pg_major_version", Effect.REFUSED, help=_RESTORE_INSTEAD),
        Field("postgis_enabled", Effect.REFUSED, help=_RESTORE_INSTEAD),
        Field("pool_mode", Effect.REFUSED, "record", help=_RESTORE_INSTEAD),
    )
    remarks: ClassVar = {
        "org_slug": f"refused: {_RESTORE_INSTEAD} (compared with what the platform shows; `personal` with "
        "what was sent)",
        "restore": "refused: to restore again, write a second PostgresCluster manifest "
        "(compared with what was sent)",
    }
    example: ClassVar = {
        "org_slug": "personal",
        "plan": "starter",
        "region": "ams",
        "disk_size_gb": 20,
        "pg_major_version": "17",
    }

    # --- while loading ---

    def references(self, spec: PostgresClusterSpec, address: Address) -> Iterable[Reference]:
        if spec.restore is not None and not calls.PLATFORM_ID.fullmatch(spec.restore.from_):
            source = Address("PostgresCluster", spec.restore.from_)
            yield Reference(source, ("spec", "restore", "from"), once=True)

    def check(self, spec: PostgresClusterSpec, span: Locate) -> Iterable[Diagnostic]:
        written = spec.model_fields_set  # fields with an invalid value too
        if "restore" not in written:
            for name in ("org_slug", "plan", "region"):
                if name not in written:
                    yield error(
                        "missing-field",
                        f"`spec.{name}` is required to create a cluster",
                        span("spec", name),
                        help=f"add `{name}:` (or `restore:` for a cluster made from a backup)",
                    )
            return
        yield from calls.check_restore(spec, span)

    def scope(self, spec: PostgresClusterSpec, address: Address) -> str:
        return f"org/{spec.org_slug or '-'}"

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return Read(f"/v1/postgres/{segment(id)}", one(Cluster)) if id else None

    def match(self, spec: PostgresClusterSpec, address: Address) -> Mapping[str, Any]:
        """Clusters match by name alone: one with the name in another region or plan must not go unnoticed."""
        return {"name": spec.name or address.name}

    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        return {"backups": calls.backups_read(id)} if "postgres.backups" in capabilities else {}

    def origin_reads(self, subject: Subject) -> Sequence[Read]:
        """Return the GET of the backups of the cluster to restore from, where its id is known."""
        restore = subject.spec.restore
        if restore is None or "postgres.backups" not in subject.capabilities:
            return ()
        id = subject.referred.get(Address(self.name, restore.from_))
        if id is None and calls.PLATFORM_ID.fullmatch(restore.from_):
            id = restore.from_
        return [calls.backups_read(id)] if id else ()

    def hints(self, subject: Subject) -> Sequence[Read]:
        """Return the GET of the backups of a cluster that is to be deleted: plans say what remains.

        Of a drill's cluster that is not shown, that of its source: who may see one of them may see both.
        """
        if subject.lifecycle.scratch and subject.live is None and subject.record is not None:
            source = self.read(
                subject.address, subject.record.applied.get(calls.SOURCE_ID), subject.capabilities
            )
            return [source] if source is not None else []
        able = {"postgres.delete", "postgres.backups"} <= subject.capabilities
        there = subject.live is not None and subject.live.present
        return [calls.backups_read(subject.live.id)] if able and there and subject.to_delete else []

    def size_gb(self, fields: Mapping[str, Any]) -> int | None:
        return fields.get("disk_size_gb") or (None if "restore" in fields else _DEFAULT_GB)

    def copied(self, copy: ClusterBackup) -> tuple[datetime, int] | None:
        at = copy.usable_from
        return (at, copy.size_bytes or 0) if at is not None else None

    # --- drills ---

    def why_no_drill(self, capabilities: frozenset[str], *, newest: bool) -> str:
        """It must be deleted again, and found where the answer to its restore is lost."""
        needed = {"postgres.delete", "postgres.list"} | ({"postgres.backups"} if newest else set())
        lacking = sorted(needed - capabilities)
        return f"the platform lacks {', '.join(f'`{name}`' for name in lacking)}" if lacking else ""

    def restoring(self, source: Resource, live: Any, copy: Any, before: datetime | None) -> Any:
        moment = {"pitr_time": f"{before:%Y-%m-%dT%H:%M:%SZ}"} if before else {"backup_id": copy.id}
        return PostgresClusterSpec.model_validate({"restore": {"from": source.address.name, **moment}})

    def endpoint(self, live: Any, name: str) -> tuple[str, int] | None:
        shown = getattr(getattr(live.endpoints, "primary", None), name, None)
        host, port = getattr(shown, "host", None), getattr(shown, "port", None)
        return (host, port) if host and port else None

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        if self.list_capability not in capabilities:
            return None
        return Read(f"/v1/postgres?org_slug={segment(place)}", many(Cluster))

    def place(self, resource: Resource, resources: Mapping[Address, Resource]) -> str:
        """A restored cluster is in its source's organization."""
        spec, seen = resource.spec, {resource.address}
        while spec.restore is not None:
            source = resources.get(Address(self.name, spec.restore.from_))
            if source is None or source.address in seen:
                return ""
            spec = source.spec
            seen.add(source.address)
        return spec.org_slug or ""

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        org_slug = (live.organization.slug if live.organization is not None else None) or place
        names = ("plan", "region", *_DEFAULTS)
        spec, comments = declared_fields(PostgresClusterSpec, names, live, _DEFAULTS)
        known = {"org_slug": org_slug, **spec}
        unknown = [name for name in ("org_slug", "plan", "region") if not known.get(name)]
        refused = f"a manifest cannot contain its {', '.join(unknown)}" if unknown else ""
        if live.status in calls.FAILED_STATUSES:
            refused = f"its status is {live.status}"
        return Declared(org_slug, live.name, known, comments, refused, apart=f"region {live.region}")

    # --- moving to another address ---

    def fits(
        self, spec: PostgresClusterSpec, record: StateRecord, alias: Callable[[Address, Address], bool]
    ) -> bool:
        """A cluster of another organization, or with another source to restore from, is another one.

        Only clusters that we created have a recorded organization, and only those that we restored a source.
        """
        if spec.restore is None:
            return record.applied.get("org_slug", spec.org_slug) in (spec.org_slug, None)
        return calls.may_be_restored(spec.restore, record, alias)

    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """A cluster that was restored from a renamed one names it by its new name."""
        return calls.renamed_source(record, moved)

    # --- deciding ---

    def create(self, subject: Subject) -> Decision:
        """Create with all given fields, and wait until `ready`; or restore."""
        spec: PostgresClusterSpec = subject.spec
        if spec.restore is not None:
            return calls.decide_restore(subject, spec.restore)
        body = spec.model_dump(exclude={"restore"}, exclude_none=True) | {"name": subject.platform_name()}
        match = {"name": body["name"], "region": body["region"]}
        step = create(
            subject,
            Call("POST", "/v1/postgres", body),
            id_path="data.id",
            object_path="data",
            applied=body,
            recovery=calls.recovery(subject, segment(body["org_slug"]), match),
            wait=calls.ready(subject),
            size_gb=body.get("disk_size_gb", _DEFAULTS["disk_size_gb"]),
        )
        return Decision(Action.CREATE, (step,), reason="no recorded cluster")

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """Compare fields, organization and restore; all differences are refused."""
        differing = compare_fields(self.fields, subject)
        spec, record, live = subject.spec, subject.record, subject.live
        # Only the record knows that `personal` was written; any other slug is what the platform shows.
        known_org = record.applied.get("org_slug") if record is not None else None
        if spec.org_slug != "personal" and live.organization is not None:
            known_org = live.organization.slug or known_org
        if spec.org_slug is not None and known_org is not None and known_org != spec.org_slug:
            differing.insert(0, FieldChange("org_slug", known_org, spec.org_slug, Effect.REFUSED))
        if spec.restore is not None and record is not None and "restore" in record.applied:
            want = spec.restore.model_dump(by_alias=True, exclude_none=True)
            if not calls.same_restore(record, want):
                differing.append(FieldChange("restore", record.applied["restore"], want, Effect.REFUSED))
        return differing

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Wait for a cluster that is not `ready`; refuse one that has failed."""
        status = subject.live.status
        if status == "ready":
            return Decision(Action.NOOP)
        if status in calls.FAILED_STATUSES:
            forget = command("state", "forget", subject.address)
            problem = error(
                "cluster-failed",
                f"cluster `{subject.address.name}` ({subject.live.id}) has status {status}",
                subject.span("metadata", "name"),
                help="look at it on the platform; if you do not need it any more, delete it by hand and "
                f"run `{forget}`",
                advice=(forget,),
            )
            return Decision(Action.REFUSED, diagnostics=(problem,), reason=f"status {status}")
        reason = f"still {status}" if status else "its status is not known"
        began = (made_at(subject.record) if subject.record else None) or parse_time(subject.live.created_at)
        age = f", {since(began, subject.now, subject.others_s)}" if began is not None else ""
        return Decision(Action.NOOP, (self.settled(subject),), reason=reason + age)

    def settled(self, subject: Subject) -> Step:
        return wait_only(subject, calls.ready(subject, reply_path=None))

    def remove(self, subject: Subject) -> Decision:
        """Delete with capability `postgres.delete`, or else advise a person."""
        if "postgres.delete" not in subject.capabilities:
            forget = command("state", "forget", subject.address)
            return Decision(
                Action.RETAIN,
                reason=f"the platform API documents no delete: delete it by hand, then run `{forget}`",
                advice=(forget,),
            )
        path = path_of("/v1/postgres/", segment(subject.live.id))
        source = calls.names_of_source(subject.record)
        step = delete(subject, path, Read(path, one(Cluster)), copy_of=source)
        reason = f"left the manifests with lifecycle deletion: delete; {calls.left_after_delete(subject)}"
        return Decision(Action.DELETE, (step,), impact=Impact.DATA_LOSS, reason=reason)

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        if change.path == "restore":
            was = change.before
            moment = was.get("backup_id") or was.get("pitr_time")
            return error(
                "immutable-field",
                f"cluster `{subject.address.name}` was restored from {was['from']} at {moment}, and is "
                "restored only once",
                subject.span("spec", "restore"),
                help="write the earlier restore again (`from` may also be the platform id), or write a "
                "second PostgresCluster "
                "manifest for another restore",
            )
        return super().refusal(subject, change)


KIND = PostgresClusterKind()
