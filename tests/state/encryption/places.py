"""Places for a state, and all that somebody reads there who has no key."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.core.clock import Clock
from reconciler.core.context import BASE
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.places.memory import MemoryBucket, MemoryState, MemoryStore
from reconciler.state.places.postgres.bucket import TableBucket
from reconciler.state.places.postgres.connections import Connections
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.postgres.url import DatabaseUrl
from tests.providers.postgres import Postgres
from tests.state.objects.doubles import memory_bucket, objects_of

Seal = Callable[[Bucket], Bucket]


@dataclass(frozen=True)
class Place:
    """`stored`: each thing that is stored there, as text."""

    open: Callable[[Seal], LogStore]
    stored: Callable[[], list[str]]


def in_memory(clock: Clock) -> Place:
    known = MemoryState(clock)
    return Place(lambda seal: MemoryStore(known, seal), lambda: _stored(MemoryBucket(known)))


def in_objects(clock: Clock) -> Place:
    bucket = memory_bucket()
    return Place(lambda seal: LogStore(seal(bucket), clock), lambda: _stored(bucket))


def _stored(bucket: Bucket, prefix: str = "") -> list[str]:
    found = []
    for key, body in objects_of(bucket, prefix).items():
        data = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        found += [key, data.decode(errors="replace")]
    return found


def in_postgres(database: Postgres, clock: Clock) -> Place:
    def stored() -> list[str]:
        connections = Connections(DatabaseUrl.of(database.url), clock)
        rows = [str(row) for row in database.rows("SELECT key, tag FROM reconcile.objects")]
        try:
            return rows + _stored(TableBucket(connections), f"{BASE}/")
        finally:
            connections.close()

    return Place(lambda seal: PostgresStore(database.url, clock, seal=seal), stored)
