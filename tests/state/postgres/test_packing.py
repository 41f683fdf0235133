"""Old rows of a state in PostgreSQL are packed: histories read them, and all promises about rows hold."""

import dataclasses

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.state import archive as packing
from reconciler.state import contents
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.postgres import commits, lists, schema
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import Event, JournalEntry
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.postgres.test_access import reader
from tests.state.worlds import DATA, NOON, SimulatedClock, entry, record

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LOST = replace(entry(Event.INTENT, "lost", run="r0"), data={"scope": "blog"})
UNTOLD = JournalEntry("r0", Event.DECIDED, NOON, DATA, data={"unclaimed": "vol_9", "scope": "shop"})
NEVER = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few runs fill a segment."""
    monkeypatch.setattr(packing, "KEPT_ROWS", 10)
    monkeypatch.setattr(packing, "SEGMENT_ROWS", 10)


async def grow(store: PostgresStore, runs: range) -> None:
    """An intent in `blog` without an outcome, an object in `shop` to decide about, then runs in both."""
    await store.create()
    lease = await store.lease(["blog", "shop"], "anna")
    if 0 in runs:
        await store.commit(lease.of("blog"), [LOST])
        await store.commit(lease.of("shop"), [UNTOLD], [record()])
    began = {
        number: JournalEntry(f"r{number}", Event.RUN_STARTED, NOON, data={"plan": f"p{number}"})
        for number in runs
    }
    calls = [
        each
        for number in runs
        for each in (began[number], *(entry(event, run=f"r{number}") for event in (Event.INTENT, Event.DONE)))
    ]
    await store.commit(lease.of("shop"), calls)
    await store.commit(lease.of("blog"), list(began.values()))
    await store.release(lease)


async def unpacked(handles: Handles, runs: range, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(packing, "KEPT_ROWS", NEVER)
        await grow(handles.open(), runs)


def counts(database: Postgres) -> tuple[object, ...]:
    """How many segments there are, rows in the journal, and plans in `lists`."""
    (found,) = database.rows(
        "SELECT (SELECT count(*) FROM reconcile.archive), (SELECT count(*) FROM reconcile.journal),"
        " (SELECT count(*) FROM reconcile.lists WHERE list = 'plans_run')"
    )
    return found


async def test_a_used_approval_stays_known_once_its_run_is_packed(
    handles: Handles, database: Postgres
) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "anna")
    used = {"plan": "p0", "approvals": [{"id": "approval-1", "statement": "", "signature": ""}]}
    await store.commit(lease, [JournalEntry("r0", Event.RUN_STARTED, NOON, data=used)])
    await store.release(lease)
    await grow(store, range(1, 31))
    assert counts(database)[0]
    kept = database.rows("SELECT key FROM reconcile.lists WHERE list = 'plans_run'")
    assert ("approval-1",) not in kept
    assert "approval-1" in (await handles.open().load()).plans_run


async def test_a_packed_journal_says_what_it_said_before(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unpacked(handles, range(30), monkeypatch)
    whole = handles.open()
    known, journal, exported = await whole.load(), await whole.journal(), await whole.export()
    assert counts(database) == (0, 122, 30)
    await grow(handles.open(), range(30, 31))
    assert counts(database) == (10, 26, 4)
    other = handles.open()
    state = await other.load()
    assert state.plans_run == known.plans_run | {"p30"}
    assert (
        (state.open_intents, state.unclaimed) == (known.open_intents, known.unclaimed) == ((LOST,), (UNTOLD,))
    )
    assert (await other.journal())[:-4] == journal
    assert (await other.export()).rows[:-4] == exported.rows
    contents.verify(await other.export())
    await other.verify()


async def test_what_is_packed_can_still_be_closed_and_claimed(handles: Handles) -> None:
    store = handles.open()
    await grow(store, range(30))
    lease = await store.lease(["blog", "shop"], "ben")
    await store.commit(lease.of("blog"), [replace(LOST, event=Event.SETTLED)])
    await store.commit(lease.of("shop"), [replace(UNTOLD, data={"claimed": "vol_9"})])
    await store.release(lease)
    state = await handles.open().load()
    assert (state.open_intents, state.unclaimed) == ((), ())
    await grow(store, range(30, 60))
    await handles.open().verify()


async def test_an_intent_that_is_packed_is_still_open(handles: Handles) -> None:
    store = handles.open()
    await grow(store, range(30))
    lease = await store.lease(["blog"], "ben")
    with pytest.raises(StoreError, match="attempt 1 of step lost in run r0 has already started"):
        await store.commit(lease, [LOST])


async def test_a_scope_that_rests_is_packed_by_who_uses_another(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unpacked(handles, range(30), monkeypatch)
    store = handles.open()
    lease = await store.lease(["wiki"], "ben")
    await store.commit(lease, [entry(Event.INTENT)])
    await store.release(lease)
    assert database.rows("SELECT DISTINCT scope FROM reconcile.archive ORDER BY 1") == [("blog",), ("shop",)]
    assert counts(database) == (10, 23, 3)
    await handles.open().verify()


async def test_a_plan_of_two_scopes_is_run_also_where_only_one_of_them_is_packed(
    handles: Handles, database: Postgres
) -> None:
    await grow(handles.open(), range(8))
    assert counts(database)[0] == 1  # of `shop`, and with it plans that stand in `blog`, too
    store = handles.open()
    lease = await store.lease(["blog"], "ben")
    await store.commit(lease, [JournalEntry("r9", Event.RUN_STARTED, NOON, data={"plan": "p0"})])
    assert {f"p{number}" for number in range(8)} == (await handles.open().load()).plans_run
    await handles.open().verify()


async def test_a_large_row_ends_a_segment(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "SEGMENT_BYTES", 1)
    await grow(handles.open(), range(8))
    assert database.rows("SELECT first, last FROM reconcile.archive ORDER BY 1") == [
        (number, number) for number in range(1, 7)
    ]
    await handles.open().verify()


async def test_a_packed_state_moves_with_its_heads(
    handles: Handles, other_handles: Handles, clock: SimulatedClock
) -> None:
    await grow(handles.open(), range(30))
    there, between, back = handles.open(), MemoryStore(MemoryState(clock)), other_handles.open()
    await between.import_(await there.export())
    assert (await between.load()).heads == (await there.load()).heads
    await back.import_(await between.export())
    await grow(back, range(30, 31))  # which packs what it has got
    before = {repr(each) for each in await there.journal()}  # scopes keep no common order
    assert {repr(each) for each in (await back.journal())[:-4]} == before
    assert (await back.load()).plans_run == (await there.load()).plans_run | {"p30"}
    await back.verify()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE reconcile.lists SET seq = seq + 1 WHERE list = 'archived' AND seq = 10", "table lists"),
        ("DELETE FROM reconcile.lists WHERE list = 'archived' AND seq = 10", "table lists"),
        (
            "UPDATE reconcile.lists SET value = replace(value, 'p3', 'q3') WHERE list = 'archived'",
            "table lists",
        ),
        (
            "DELETE FROM reconcile.archive WHERE scope = 'blog' AND first = 1",
            "row 1 of the journal of `blog`",
        ),
        ("UPDATE reconcile.archive SET body = 'x' WHERE first = 1", "packed rows 1 to 10 of the journal of"),
    ],
)
async def test_what_a_plan_relies_on_is_checked_when_the_state_is_read(
    handles: Handles, database: Postgres, statement: str, named: str
) -> None:
    await grow(handles.open(), range(30))
    database.rows(statement)
    for attempt in (handles.open().load, handles.open().verify):
        with pytest.raises(StoreError, match="is damaged") as damaged:
            await attempt()
        assert named in damaged.value.message


async def test_damage_to_other_packed_rows_is_told_by_who_reads_them(
    handles: Handles, database: Postgres
) -> None:
    await grow(handles.open(), range(30))
    database.rows("DELETE FROM reconcile.archive WHERE scope = 'shop' AND first = 21")
    other = handles.open()
    await other.load()
    for attempt in (other.journal, other.verify):
        with pytest.raises(
            StoreError, match="row 31 of the journal of `shop` does not follow the one before"
        ):
            await attempt()


async def test_a_row_that_was_changed_is_never_packed(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unpacked(handles, range(30), monkeypatch)
    at = "2031-01-01T00:00:00+00:00"
    database.rows(f"UPDATE reconcile.journal SET at = '{at}' WHERE scope = 'shop' AND seq = 17")
    told: list[str] = []
    await grow(handles.open(tell=told.append), range(30, 31))
    (message,) = told
    assert "old rows of the journal were not packed" in message
    assert "row 17 of the journal of `shop` is not what was written" in message
    assert database.rows("SELECT scope, count(*) FROM reconcile.archive GROUP BY 1 ORDER BY 1") == [
        ("blog", 2),
        ("shop", 1),
    ]


async def test_packing_that_is_cut_off_changes_nothing(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unpacked(handles, range(30), monkeypatch)
    before = await handles.open().load()
    with monkeypatch.context() as patch:
        patch.setattr("reconciler.state.postgres.heads.store", lambda *_: ("SELECT 1 / 0", ()))
        store = handles.open()
        store._unpacked = 1
        await store.release(await store.lease(["wiki"], "ben"))
    assert counts(database) == (0, 122, 30)
    assert (
        dataclasses.replace(await handles.open().load(), serials=before.serials, version=before.version)
        == before
    )


async def test_a_commit_whose_answer_came_after_its_rows_were_packed_has_landed(
    handles: Handles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a process whose scope was taken by force, while others went on."""
    store, other = handles.open(), handles.open()
    await store.create()
    lease = await store.lease(["shop"], "anna")
    commit = commits.commit

    async def be_overtaken(*args):  # type: ignore[no-untyped-def]
        await commit(*args)
        monkeypatch.setattr(commits, "commit", commit)
        await store._line._hang_up()
        await other.unlock("shop", force=True)
        await grow(other, range(2, 31))
        raise TimeoutError

    monkeypatch.setattr(commits, "commit", be_overtaken)
    (stored,) = await store.commit(lease, [entry(Event.INTENT)], [record()])
    assert stored.serial == 1
    assert len([each for _, each in await other.journal() if each.event is Event.INTENT]) == 30


async def test_the_first_schema_is_migrated_and_whoever_could_read_it_still_can(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unpacked(handles, range(30), monkeypatch)
    database.rows("DROP TABLE reconcile.archive")  # with which that schema stands as it was
    database.rows("UPDATE reconcile.version SET version = 1")
    looks = reader(database)
    database.rows("GRANT SELECT ON reconcile.journal TO PUBLIC")
    told: list[str] = []
    store = handles.open(tell=told.append)
    await store.load()
    assert len(told) == 1
    assert f"migrated from version 1 to {schema.VERSION}" in told[0]
    await grow(store, range(30, 31))
    assert counts(database) == (10, 26, 4)
    assert len(await handles.open(url=looks).journal()) == 126
    assert database.rows("SELECT has_table_privilege('public', 'reconcile.archive', 'SELECT')") == [(True,)]
    await handles.open(url=looks).verify()


async def test_a_state_of_version_0_2_0_has_the_newest_schema_and_is_sound(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no verb which only looks migrates one, and programs of that version go on."""
    changes = lists._changes
    with monkeypatch.context() as older:
        older.setattr(lists, "_changes", lambda effect: [*changes(effect), ((lists.FACTS, "new"), "yes")])
        await grow(handles.open(), range(3))
    version, trunk = "SELECT version FROM reconcile.version", "SELECT trunk_seq, trunk_hash, trunk_serial"
    told: list[str] = []
    store = handles.open(tell=told.append)
    lineage = (await store.load()).lineage
    await store.verify()
    assert told == []
    assert database.rows(version) == [(2,)]
    assert database.rows(f"{trunk} FROM reconcile.states") == [(0, lineage, 0)]
