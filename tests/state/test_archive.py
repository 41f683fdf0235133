"""Old rows of a SQLite state are packed: histories read them, and all promises about rows stay true."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state import archive as packing
from reconciler.state import contents
from reconciler.state.sqlite import backups, schema
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import Event, JournalEntry
from tests.state.conftest import OpenStore
from tests.state.test_files import execute
from tests.state.test_journal import forge
from tests.state.test_migrations import left_by
from tests.state.worlds import DATA, NOON, entry, record

pytestmark = pytest.mark.anyio

LOST = replace(entry(Event.INTENT, "lost", run="r0"), data={"scope": "blog"})
UNTOLD = JournalEntry("r0", Event.DECIDED, NOON, DATA, data={"unclaimed": "vol_9", "scope": "shop"})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few runs fill a segment."""
    monkeypatch.setattr(packing, "KEPT_ROWS", 10)
    monkeypatch.setattr(packing, "SEGMENT_ROWS", 10)


async def grow(store: SqliteStore, runs: range, text: str = "") -> None:
    """An intent in `blog` without an outcome, an object in `shop` to decide about, then runs in `shop`."""
    lease = await store.lease(["blog", "shop"], "anna")
    if 0 in runs:
        await store.commit(lease.of("blog"), [LOST])
        await store.commit(lease.of("shop"), [UNTOLD], [record()])
    for number in runs:
        run = f"r{number}"
        began = JournalEntry(run, Event.RUN_STARTED, NOON, data={"plan": f"p{number}"})
        called = entry(Event.INTENT, run=run, text=text)
        await store.commit(lease.of("shop"), [began, called, entry(Event.DONE, run=run)])
    await store.release(lease)


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)


async def test_a_used_approval_stays_known_once_its_run_is_packed(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    lease = await store.lease(["shop"], "anna")
    used = {"plan": "p0", "approvals": [{"id": "approval-1", "statement": "", "signature": ""}]}
    await store.commit(lease, [JournalEntry("r0", Event.RUN_STARTED, NOON, data=used)])
    await store.release(lease)
    await grow(store, range(1, 31))
    assert rows(path, "archived") > 0
    assert rows(path, "plans_run") < 31
    assert "approval-1" in (await another().load()).plans_run


async def test_a_packed_journal_says_what_it_said_before(
    store: SqliteStore, another: OpenStore, path: Path, clock: Clock
) -> None:
    whole = SqliteStore(path, clock, backups=False)  # which packs nothing
    await grow(whole, range(30))
    known, journal, exported = await whole.load(), await whole.journal(), await whole.export()
    await whole.close()
    assert rows(path, "archived") == 0
    await grow(store, range(30, 31))
    assert (rows(path, "archived"), rows(path, "journal")) == (8, 15)
    reader = another()
    state = await reader.load()
    assert state == dataclasses.replace(known, plans_run=known.plans_run | {"p30"})
    assert (state.open_intents, state.unclaimed) == ((LOST,), (UNTOLD,))
    assert (await reader.journal())[:-3] == journal
    assert (await reader.export()).rows[:-3] == exported.rows
    contents.verify(await reader.export())
    await reader.verify()


async def test_what_is_packed_can_still_be_closed_and_claimed(store: SqliteStore, another: OpenStore) -> None:
    await grow(store, range(30))
    lease = await store.lease(["blog", "shop"], "ben")
    await store.commit(lease.of("blog"), [replace(LOST, event=Event.SETTLED)])
    await store.commit(lease.of("shop"), [replace(UNTOLD, data={"claimed": "vol_9"})])
    with pytest.raises(StoreError, match="attempt 1 of step s2 in run r1 has already started"):
        await store.commit(lease.of("shop"), [entry(Event.INTENT, "s2"), entry(Event.INTENT, "s2")])
    await store.release(lease)
    state = await another().load()
    assert (state.open_intents, state.unclaimed) == ((), ())
    await grow(store, range(30, 60))
    await another().verify()


async def test_a_scope_that_rests_goes_on_where_its_packed_rows_ended(
    store: SqliteStore, another: OpenStore
) -> None:
    await grow(store, range(30))
    lease = await store.lease(["blog"], "ben")
    await store.commit(lease, [entry(Event.DONE, "b1", run="r9")])
    assert len((await another().load()).heads) == 2
    await another().verify()
    assert [at for at, _ in (await another().export()).heads.items()] == ["blog", "shop"]


async def test_the_file_and_its_backups_stay_small(store: SqliteStore, path: Path) -> None:
    await grow(store, range(50), "x" * 20_000)
    raw = 50 * 20_000
    newest = backups.all_of(path)[0].path
    assert newest.stat().st_size < raw
    await store.close()
    assert path.stat().st_size < raw


async def test_a_file_that_an_older_program_made_gives_back_space_too(
    opened: SqliteStore, path: Path
) -> None:
    left_by(4, path)
    await opened.migrate()
    with closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        assert (mode, schema.version_of(connection)) == (2, schema.VERSION)


async def test_a_row_that_was_changed_is_never_packed(
    store: SqliteStore, another: OpenStore, path: Path, clock: Clock
) -> None:
    whole = SqliteStore(path, clock, backups=False)
    await grow(whole, range(30))
    await whole.close()
    execute(path, "UPDATE journal SET at = '2031-01-01T00:00:00+00:00' WHERE row = 17")
    told: list[str] = []
    await grow(SqliteStore(path, clock, tell=told.append), range(30, 31))
    assert len(told) == 1
    assert "no backup of the state was made" in told[0]
    assert "journal row 17 is not what was written" in told[0]
    assert rows(path, "archived") == 1  # the segment before
    with pytest.raises(StoreError, match="journal row 17"):
        await another().verify()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE archived SET last = last + 1 WHERE first = 1", "table archived"),
        ("DELETE FROM archived WHERE first = 11", "table archived"),
        ("UPDATE archive_end SET value = '[]' WHERE name = 'open_intents'", "table archive_end"),
        ("UPDATE archive SET plans = '[]' WHERE first = 11", "journal rows 11 to 20 is not what was written"),
        ("DELETE FROM archive WHERE first = 11", "journal rows 11 to 20 is missing"),
        ("UPDATE archive SET body = x'00' WHERE first = 1", "journal rows 1 to 10 is not what was written"),
        ("DELETE FROM journal WHERE row = (SELECT min(row) FROM journal)", "journal row 81 is missing"),
    ],
)
async def test_what_a_plan_relies_on_is_checked_when_the_state_is_read(
    store: SqliteStore, another: OpenStore, path: Path, statement: str, named: str
) -> None:
    await grow(store, range(30))
    await store.close()
    execute(path, statement)
    with pytest.raises(StoreError, match=named):
        await another().load()


async def test_damage_to_other_packed_rows_is_told_by_the_next_apply_and_by_who_reads_them(
    store: SqliteStore, another: OpenStore, path: Path, clock: Clock
) -> None:
    await grow(store, range(30))
    await store.close()
    execute(path, "UPDATE archive SET body = x'00' WHERE first = 21")
    reader, damaged = another(), "archive of journal rows 21 to 30 is not what was written"
    await reader.load()
    for attempt in (reader.journal, reader.verify, reader.export, reader.backup):
        with pytest.raises(StoreError, match=damaged):
            await attempt()
    told: list[str] = []
    await grow(SqliteStore(path, clock, tell=told.append), range(30, 31))
    assert len(told) == 1
    assert damaged in told[0]


async def test_an_end_that_the_packed_rows_do_not_say_is_found(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await grow(store, range(30))
    await store.close()
    forge(path, "UPDATE archive_end SET value = '\"https://elsewhere\"' WHERE name = 'platform'")
    with pytest.raises(StoreError, match="the end of the archive is not what its rows say"):
        await another().verify()


async def test_packing_that_is_cut_off_changes_nothing(
    store: SqliteStore, another: OpenStore, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SqliteStore(path, clock, backups=False)
    await grow(whole, range(30))
    known = await whole.load()
    await whole.close()
    with monkeypatch.context() as patch:
        patch.setattr(packing, "pack", lambda rows: (_ for _ in ()).throw(sqlite3.OperationalError("full")))
        lease = await store.lease(["shop"], "anna")
        await store.commit(lease, [], [record(serial=known.records[DATA].serial)])
        await store.release(lease)
    assert rows(path, "archived") == 0
    await another().verify()
    await grow(store, range(30, 31))
    assert rows(path, "archived") == 8
    await another().verify()


async def test_rows_that_were_packed_after_a_backup_are_salvaged(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await grow(store, range(5))
    first = backups.all_of(path)[0].path
    await grow(store, range(5, 40))
    known, journal = await another().load(), await another().journal()
    await store.close()
    execute(path, "DELETE FROM plans_run")
    restored = await another().restore(first)
    assert (restored.salvaged, restored.lost) == (105, "")
    state = await another().load()
    assert (state.records, state.plans_run, state.open_intents) == (
        known.records,
        known.plans_run,
        known.open_intents,
    )
    assert (await another().journal())[:-1] == journal
    await another().verify()


async def test_a_packed_backup_is_restored_whole(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await grow(store, range(30))
    known = await another().load()
    await store.close()
    path.write_bytes(b"x" * 5000)
    await another().restore()
    assert dataclasses.replace(await another().load(), unclaimed=()) == dataclasses.replace(
        known, unclaimed=()
    )
    await another().verify()
    await grow(another(), range(30, 40))
    await another().verify()
