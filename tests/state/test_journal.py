"""The journal's own checks, behind the digests of the tables: what they find when those were made to fit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.sqlite import checks
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import entry

pytestmark = pytest.mark.anyio


def forge(path: Path, statement: str, *, head: bool = False) -> None:
    """Change the database and make its check values fit; with `head`, also those of the journal's end."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount != 0
        found = checks.read(connection)
        found.tables = {table: checks.digest_of(connection, table) for table in checks.SMALL_TABLES}
        if head:
            found.head_seq, found.head_hash = connection.execute(
                "SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        checks.write(connection, found)
        connection.commit()
    checks.seen_path(path).unlink()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE open_intents SET seq = 2", "row 2 is not the intent it should be"),
        ("UPDATE open_intents SET seq = 99", "row 99 is missing"),
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
        ("INSERT INTO facts VALUES ('platform', 'https://x.example')", "the platform's address"),
        ("DELETE FROM journal WHERE seq = 7", "ends with row 6, not 7"),
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
    await other.verify()
    await other.close()
    forge(path, statement)
    with pytest.raises(StoreError, match=named):
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


async def test_a_run_without_a_plan_and_a_decision_about_something_else_change_no_list(
    store: SqliteStore,
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.RUN_STARTED, ""), entry(Event.DECIDED, "", forget="vol_1")])
    state = await store.load()
    assert (state.plans_run, state.unclaimed) == (frozenset(), ())
    await store.verify()
