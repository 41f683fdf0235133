"""The journal's own checks, behind the digests of the tables: what they find when those were made to fit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.between_scopes import arrived
from reconciler.state.sqlite import checks, heads
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import DATA, NOON, entry, record

pytestmark = pytest.mark.anyio

POSTS = Address("Volume", "posts", "blog")


def forge(path: Path, statement: str) -> None:
    """Change the database and make its check values fit."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount != 0
        found = checks.read(connection)
        found.tables = {table: checks.digest_of(connection, table) for table in checks.SMALL_TABLES}
        checks.write(connection, found)
        connection.commit()
    checks.seen_path(path).unlink()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE open_intents SET row = 2", "row 2 is not the intent it should be"),
        ("UPDATE open_intents SET row = 99", "row 99 is missing"),
        ("INSERT INTO unclaimed VALUES ('vol_9', 4)", "row 4 is not about `vol_9`"),
        ("UPDATE journal SET hash = 'x' WHERE seq = 4", "row [45] is not what was written"),
        ("DELETE FROM journal WHERE seq = 5", "ends with row 4, not 5"),
    ],
)
async def test_reading_checks_the_rows_that_matter(
    store: SqliteStore, another: OpenStore, path: Path, statement: str, named: str
) -> None:
    await fill(store)
    forge(path, statement)
    with pytest.raises(StoreError, match=named):
        await another().load()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM open_intents", "the list of open intents"),
        ("DELETE FROM plans_run", "the list of plans run"),
        ("DELETE FROM unclaimed", "the list of unclaimed objects"),
        ("DELETE FROM half_moved", "the list of moves to another scope"),
        ("INSERT INTO facts VALUES ('platform', 'https://x.example')", "the platform's address"),
        ("DELETE FROM journal WHERE seq = 8", "ends with row 7, not 8"),
    ],
)
async def test_verifying_derives_all_lists_again(
    store: SqliteStore, another: OpenStore, path: Path, statement: str, named: str
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["shop"], "anna")
    for id in ("vol_8", "vol_9"):
        await other.commit(lease, [entry(Event.DECIDED, "", unclaimed=id)])
    await other.commit(lease, [arrived(record(POSTS), DATA, "r1", NOON)])
    await other.verify()
    await other.close()
    forge(path, statement)
    with pytest.raises(StoreError, match=named):
        await another().verify()


async def test_verifying_finds_a_head_that_was_put_back_with_its_check_values(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """A scope would go on from an earlier row of its chain, and give a serial twice."""
    await fill(store)
    with closing(sqlite3.connect(path)) as connection:
        found = checks.read(connection)
        with heads.changing(connection, found, "shop") as head:
            earlier = connection.execute("SELECT seq, hash FROM journal WHERE seq = 4").fetchone()
            head.seq, head.hash = earlier
        checks.write(connection, found)
        connection.commit()
    checks.seen_path(path).unlink()
    with pytest.raises(StoreError, match="the journal of `shop` does not end where it should"):
        await another().verify()


async def test_another_row_at_the_end_is_not_the_one_that_was_written(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """Two histories that go on from the same row: each of them is a sound chain."""
    await fill(store)
    before = path.read_bytes()
    ends = []
    for step in ("a", "b"):
        path.write_bytes(before)
        checks.seen_path(path).unlink()
        other = another()
        lease = await other.lease(["shop"], "anna")
        await other.commit(lease, [entry(Event.DONE, step)])
        await other.close()
        with closing(sqlite3.connect(path)) as connection:
            ends.append(connection.execute("SELECT step, hash FROM journal WHERE seq = 6").fetchone())
    (step, hash), _ = ends
    forge(path, f"UPDATE journal SET step = '{step}', hash = '{hash}' WHERE seq = 6")
    with pytest.raises(StoreError, match="row 6 is not the one that was written"):
        await another().load()


@pytest.mark.parametrize(
    ("statement", "read", "verified"),
    [
        (
            "DELETE FROM journal WHERE scope = 'blog' AND seq = 3",
            "row 8 is missing",
            "row 8 is missing",
        ),
        (
            "UPDATE journal SET scope = 'wiki' WHERE scope = 'blog' AND seq = 3",
            "`blog` does not end",
            "row 8",
        ),
        ("UPDATE journal SET step = 'x' WHERE scope = 'blog' AND seq = 3", "row 8 is not", "row 8 is not"),
        ("UPDATE journal SET step = 'x' WHERE scope = 'blog' AND seq = 2", "", "row 7 is not what was"),
        ("UPDATE journal SET seq = 9 WHERE scope = 'blog' AND seq = 2", "row before row 8", "row 7 does not"),
    ],
)
async def test_the_chain_of_each_scope_is_checked_where_another_goes_on_after_it(
    store: SqliteStore, another: OpenStore, path: Path, statement: str, read: str, verified: str
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["blog", "shop"], "anna")
    for scope, step in (("blog", "b1"), ("blog", "b2"), ("blog", "b3"), ("shop", "s3")):
        await other.commit(lease.of(scope), [entry(Event.DONE, step)])
    await other.verify()
    await other.close()
    forge(path, statement)
    if read:
        with pytest.raises(StoreError, match=read):
            await another().load()
    else:
        await another().load()
    with pytest.raises(StoreError, match=verified):
        await another().verify()


async def test_a_run_without_a_plan_and_a_decision_about_something_else_change_no_list(
    store: SqliteStore,
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.RUN_STARTED, ""), entry(Event.DECIDED, "", forget="vol_1")])
    state = await store.load()
    assert (state.plans_run, state.unclaimed) == (frozenset(), ())
    await store.verify()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            "UPDATE journal SET at = '2030-01-01T13:00:00+00:00' WHERE seq = 1",
            "row 1 is not what was written",
        ),
        ("UPDATE journal SET at = 'long ago' WHERE seq = 1", "what was never written|not what was written"),
        ("DELETE FROM journal WHERE seq = 2", "row 2 is missing"),
    ],
)
async def test_a_journal_that_was_changed_is_not_shown(
    store: SqliteStore, another: OpenStore, path: Path, statement: str, named: str
) -> None:
    await fill(store)
    forge(path, statement)
    for since in (None, NOON):
        with pytest.raises(StoreError, match=named):
            await another().journal(since=since)
