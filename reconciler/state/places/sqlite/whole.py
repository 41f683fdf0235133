"""A whole state in a database: made of `StateDump`, read as `StateDump`, and verified byte by byte."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from reconciler.core.clock import SystemClock
from reconciler.state.contents import StateDump
from reconciler.state.durable import make_private
from reconciler.state.log import head as heads
from reconciler.state.log import moving
from reconciler.state.log import root as roots
from reconciler.state.log.bucket import Bucket, Layout, unsealed
from reconciler.state.log.damage import Damaged, explained
from reconciler.state.log.root import Root
from reconciler.state.log.store import LogStore
from reconciler.state.places.sqlite import database, files, seen
from reconciler.state.places.sqlite.bucket import TableBucket, stored, tag_of
from reconciler.state.places.sqlite.database import check_all_pages, transaction
from reconciler.state.places.sqlite.seen import Seen


def make(
    path: Path,
    contents: StateDump,
    number: int,
    randomness: Callable[[int], bytes],
    seal: Callable[[Bucket], Bucket] = unsealed,
) -> None:
    """A new file at `path` that holds `contents`; nothing where another process was faster. See `fill`."""

    def fill_new(new: Path) -> None:
        with closing(database.connect(new)) as connection, transaction(connection):
            fill(connection, contents, number, randomness, seal)

    make_private(path.parent)
    with suppress(FileExistsError):
        files.create(path, fill_new)


def fill(
    connection: sqlite3.Connection,
    contents: StateDump,
    number: int,
    randomness: Callable[[int], bytes],
    seal: Callable[[Bucket], Bucket] = unsealed,
) -> None:
    """Make a state of an empty database, in the caller's transaction. Raises StoreError.

    The key of `contents` is the digest that the root holds; the key itself is in its own file. `number`: of
    the newest change. `randomness(n)` gives n bytes. `seal`: gives the bucket that encrypts it.
    """
    database.make(connection)
    bucket = seal(TableBucket("of the copy", connection))
    moving.write(bucket, Layout(contents.environment), contents, lambda: randomness(8).hex())
    connection.execute("UPDATE changes SET number = ?", (number,))


def root_of(bucket: TableBucket) -> Root:
    """Of whatever environment. Raises Damaged where there is none, and StoreError for another thing."""
    found = bucket.get(Layout("").root)
    if found is None:
        raise Damaged("state.json is missing")
    return roots.decoded(bucket, found)


def read(connection: sqlite3.Connection) -> tuple[StateDump, Seen]:
    """All of a state, not followed again, and its newest change, once all bytes are what was written."""
    verify(connection)
    return contents_of(connection), seen.of(connection)


def contents_of(connection: sqlite3.Connection) -> StateDump:
    """All of it, not followed again, with the digest of its key. Raises StoreError."""
    bucket = TableBucket("of the copy", connection)
    with explained(bucket):
        return LogStore(bucket, SystemClock(), environment=root_of(bucket).environment).exported()


def verify(connection: sqlite3.Connection) -> None:
    """Read everything, byte by byte, but do not follow it again. Raises Damaged, naming what was changed.

    A commit writes only what follows from what was there. So a state holds what was written, where each
    object is what it was, and none is missing that another one names.
    """
    check_all_pages(connection)
    bucket = TableBucket("of the copy", connection)
    tags = {}
    for key, tag, body in connection.execute("SELECT key, tag, CAST(body AS BLOB) FROM objects"):
        if tag_of(body) != tag:
            raise Damaged(f"{key} is not what was written")
        tags[key] = tag
    known = root_of(bucket)
    layout = Layout(known.environment, known.generation)
    for scope in known.scopes:
        found = bucket.get(layout.head(scope))
        if found is None:
            raise Damaged(f"the head of `{scope}` is missing")
        head, lines = heads.decode(found.body, scope, known.lineage)
        if head.changes != len(lines) + (head.segments[-1].last if head.segments else 0):
            raise Damaged(f"changes of `{scope}` are missing")
        files = {layout.segment(scope, segment.name): segment.sha256 for segment in head.segments}
        if head.base is not None:
            files[layout.base(scope, head.base.name)] = head.base.sha256
        for key, sha256 in files.items():
            if tags.get(stored(key)) != sha256:
                raise Damaged(f"{stored(key)} is missing, or not what was written")
