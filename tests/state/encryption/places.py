"""Places for a state, and all that somebody reads there who has no key."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from obstore.store import MemoryStore as Objects

from reconciler.core.clock import Clock
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.places.memory import MemoryBucket, MemoryState, MemoryStore
from reconciler.state.places.objects.bucket import ObstoreBucket
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import Store
from tests.providers.postgres import Postgres

_TABLES = ("states", "leases", "heads", "records", "journal", "lists")


@dataclass(frozen=True)
class Place:
    """`stored`: each thing that is stored there, as text."""

    open: Callable[[], Store]
    stored: Callable[[], list[str]]


def in_memory(clock: Clock) -> Place:
    known = MemoryState(clock)
    return Place(lambda: MemoryStore(known), lambda: _stored(MemoryBucket(known)))


def in_objects(clock: Clock) -> Place:
    memory = Objects()
    bucket = ObstoreBucket("memory://", memory, memory)
    return Place(lambda: LogStore(bucket, clock), lambda: _stored(bucket))


def _stored(bucket: Bucket) -> list[str]:
    found = []
    for key in bucket.list(""):
        body = bucket.get(key)
        assert body is not None
        data = gzip.decompress(body.body) if body.body[:2] == b"\x1f\x8b" else body.body
        found += [key, data.decode()]
    return found


def in_postgres(database: Postgres, clock: Clock) -> Place:
    def stored() -> list[str]:
        return [
            str(value)
            for table in _TABLES
            for row in database.rows(f"SELECT t::text FROM reconcile.{table} t")
            for value in row
        ] + [bytes(key).decode("latin-1") for (key,) in database.rows("SELECT key FROM reconcile.states")]

    return Place(lambda: PostgresStore(database.url, clock), stored)
