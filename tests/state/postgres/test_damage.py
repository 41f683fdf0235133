"""What somebody changed in the tables by hand, or a disk by itself, is told and not believed."""

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.postgres.store import PostgresStore
from reconciler.state.store import Event, JournalEntry, Run
from tests.providers.postgres import Postgres
from tests.state.moving import filled
from tests.state.postgres.conftest import Handles
from tests.state.worlds import NOON, entry, record

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def store(handles: Handles) -> PostgresStore:
    store = handles.open()
    await filled(store)
    return store


# What is done, and a part of what is said.
SEEN_BY_READING = {
    "a record without its scope": ("DELETE FROM reconcile.records WHERE name = 'data'", "records, and not"),
    "another size": (
        "UPDATE reconcile.records SET body = replace(body, '10', '20') WHERE name = 'data'",
        "the record of Volume/shop/data is not what was written",
    ),
    "another serial": ("UPDATE reconcile.records SET serial = serial + 1", "is not what was written"),
    "another id beside the body": ("UPDATE reconcile.records SET id = 'vol_x'", "is not what was written"),
    "another scope beside the body": (
        "UPDATE reconcile.records SET scope = 'blog' WHERE name = 'data'",
        "is not what was written",
    ),
    "no open intents": ("DELETE FROM reconcile.lists WHERE list = 'open_intents'", "table lists"),
    "no platform": ("DELETE FROM reconcile.lists WHERE key = 'platform'", "table lists"),
    "another platform": (
        "UPDATE reconcile.lists SET value = 'https://other' WHERE key = 'platform'",
        "table lists",
    ),
    "a plan that never ran": (
        "INSERT INTO reconcile.lists SELECT state, list, 'plan-9', scope, seq, value"
        " FROM reconcile.lists WHERE list = 'plans_run'",
        "table lists",
    ),
    "no newest row": ("DELETE FROM reconcile.journal WHERE scope = 'shop' AND seq = 4", "does not end where"),
    "an older head": (
        "UPDATE reconcile.heads SET seq = seq - 1 WHERE scope = 'shop'",
        "the journal of `shop` does not end where it should",
    ),
    "no head": ("DELETE FROM reconcile.heads WHERE scope = 'blog'", "`blog` does not end where it should"),
    "nothing of a scope": (
        "WITH a AS (DELETE FROM reconcile.heads WHERE scope = 'shop'), b AS (DELETE FROM reconcile.records"
        " WHERE scope = 'shop'), c AS (DELETE FROM reconcile.lists WHERE scope = 'shop')"
        " DELETE FROM reconcile.journal WHERE scope = 'shop'",
        "the journal of `shop` does not end where it should",
    ),
    "another intent": (
        "UPDATE reconcile.journal SET data = '{}' WHERE event = 'step.intent'",
        "is not what was written",
    ),
    "another key": (
        "UPDATE reconcile.states SET key = '\\x00'",
        "its lineage or key is not what was written",
    ),
    "another lineage": ("UPDATE reconcile.states SET lineage = 'x'", "its lineage or key"),
}
SEEN_BY_VERIFYING = {
    "an older row": (
        "UPDATE reconcile.journal SET step = 's7' WHERE event = 'step.done'",
        "row 3 of the journal of `shop` is not what was written",
    ),
    "a missing row": (
        "DELETE FROM reconcile.journal WHERE event = 'step.done'",
        "row 4 of the journal of `shop` does not follow",
    ),
    "rows of no head": (
        "INSERT INTO reconcile.journal"
        " (state, scope, seq, run, event, at, step, attempt, data, previous, hash)"
        " SELECT state, 'wiki', seq, run, event, at, step, attempt, data, previous, hash"
        " FROM reconcile.journal WHERE scope = ''",
        "is not what was written",
    ),
}


@pytest.mark.parametrize("what", SEEN_BY_READING)
async def test_damage_is_told_when_the_state_is_read(
    handles: Handles, database: Postgres, store: PostgresStore, what: str
) -> None:
    change, told = SEEN_BY_READING[what]
    database.rows(change)
    other = handles.open()
    with pytest.raises(StoreError, match="is damaged") as damaged:
        await other.load()
    assert told in damaged.value.message
    assert "reconcile state restore FILE" in damaged.value.help
    with pytest.raises(StoreError, match="is damaged"):
        await other.verify()


@pytest.mark.parametrize("what", SEEN_BY_VERIFYING)
async def test_damage_to_old_rows_is_told_when_all_is_read(
    handles: Handles, database: Postgres, store: PostgresStore, what: str
) -> None:
    change, told = SEEN_BY_VERIFYING[what]
    database.rows(change)
    other = handles.open()
    await other.load()
    for attempt in (other.verify, other.journal):
        with pytest.raises(StoreError, match="is damaged") as damaged:
            await attempt()
        assert told in damaged.value.message


async def test_a_list_that_was_forged_with_its_sum_is_told_when_all_is_read(
    handles: Handles, database: Postgres, store: PostgresStore
) -> None:
    """A plan of a row that says something else."""
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [JournalEntry("r9", Event.RUN_STARTED, NOON, data=Run("plan-9").to_json())])
    await store.verify()
    database.rows("DELETE FROM reconcile.lists WHERE key = 'plan-9'")
    database.rows(
        "UPDATE reconcile.heads SET lists = (SELECT lists FROM reconcile.heads WHERE scope = 'blog')"
        " WHERE scope = 'shop'"
    )
    with pytest.raises(StoreError, match="is damaged"):
        await handles.open().verify()


async def test_a_commit_covers_up_no_damage(
    handles: Handles, database: Postgres, store: PostgresStore
) -> None:
    lease = await store.lease(["shop"], "me")
    database.rows("DELETE FROM reconcile.lists WHERE list = 'open_intents'")
    await store.commit(lease, [entry(Event.INTENT, "s9")])
    with pytest.raises(StoreError, match="table lists"):
        await handles.open().load()


async def test_a_commit_on_a_damaged_head_stores_nothing(database: Postgres, store: PostgresStore) -> None:
    lease = await store.lease(["shop"], "me")
    before = database.rows("SELECT count(*) FROM reconcile.journal")
    database.rows("UPDATE reconcile.heads SET serial = serial + 1 WHERE scope = 'shop'")
    with pytest.raises(StoreError, match="table heads is not what was written"):
        await store.commit(lease, [entry(Event.INTENT, "s9")], [record(serial=1)])
    assert database.rows("SELECT count(*) FROM reconcile.journal") == before


async def test_an_address_that_another_scope_puts_at_the_same_moment_is_refused(handles: Handles) -> None:
    store, other = handles.open(), handles.open()
    await store.create()
    shop, blog = await store.lease(["shop", "wiki"], "me"), await other.lease(["blog"], "ben")
    ask = store._line.ask

    async def be_overtaken(*statements):  # type: ignore[no-untyped-def]
        if any(text.startswith("INSERT INTO reconcile.records") for text, _ in statements):
            store._line.ask = ask  # type: ignore[method-assign]
            await other.commit(blog, [], [record(scope="blog")])
        return await ask(*statements)

    store._line.ask = be_overtaken  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="has changed since it was read"):
        await store.commit(shop.of("shop"), [entry(Event.INTENT)], [record()])
    await store.commit(shop.of("wiki"), [entry(Event.INTENT, "s2")])
    assert [record.scope for record in (await other.load()).records.values()] == ["blog"]
    await other.verify()
