"""The waits for a cluster that is being made, and how a lost create is found.

Source: platform API, 2.1 and 3.1; platform notes, "Postgres".
"""

from collections.abc import Mapping
from typing import Any

from reconciler.core.steps import FOUND_ID, Ask, Condition, Find, OutputRef, Read, Wait
from reconciler.core.wire import many, one
from reconciler.kinds.base import Subject, path_of, segment
from reconciler.services.machines.wire.cluster import Cluster

FAILED_STATUSES = ("failed", "error")  # "error" occurs where the document says "failed"

# What shows later that it is not what it was.
FIRST_SEEN = (
    "organization.slug",
    "replicas",
    "created_at",
    "disk_size_gb",
    "pg_major_version",
    "postgis_enabled",
)


def ready(subject: Subject, reply_path: str | None = "data") -> Wait:
    return Wait(
        Read(path_of("/v1/postgres/", id_segment(subject)), one(Cluster)),
        Condition("status", any_of=("ready",), fails=(*FAILED_STATUSES, "deleting", "deleted")),
        subject.lifecycle.timeout_s,
        reply_path=reply_path,
        kept=FIRST_SEEN,
        timed=True,
    )


def id_segment(subject: Subject) -> str | OutputRef:
    known = subject.known_id()
    return segment(known) if isinstance(known, str) else known


def recovery(subject: Subject, org_slug: str | OutputRef | None, match: Mapping[str, Any]) -> Ask | Find:
    """Without a documented list nothing can show whether a lost create landed: a person decides."""
    if "postgres.list" not in subject.capabilities or org_slug is None:
        return Ask()
    listing = Read(path_of("/v1/postgres?org_slug=", org_slug), many(Cluster))
    found = Read(path_of("/v1/postgres/", FOUND_ID), one(Cluster))
    return Find(listing, match, unattached=("attached_apps",), one=found)
