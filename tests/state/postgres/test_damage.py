"""What somebody changed in the table by hand, or a disk by itself, is told and not believed."""

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log import segments
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import WHOLE_STATE, Event
from tests.providers.postgres import Postgres
from tests.state.moving import filled
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def store(handles: Handles, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    """With a head that has a base and segments, and a newest change that only the head has."""
    monkeypatch.setattr(segments, "TAIL_BYTES", 400)
    monkeypatch.setattr(segments, "BASE_BYTES", 400)
    store = handles.open()
    await filled(store)
    return store


def body(old: str, new: str, where: str) -> str:
    """Bytes of an object that were changed in place."""
    changed = f"convert_to(replace(convert_from(body, 'UTF8'), '{old}', '{new}'), 'UTF8')"
    return f"UPDATE reconcile.objects SET body = {changed} WHERE {where}"


SHOP = "key LIKE '%/heads/shop'"
# What is done, and a part of what is said.
SEEN_BY_READING = {
    "another head": (
        body('"seq":4', '"seq":3', f"{SHOP} AND part = 0"),
        "the head of `shop` is not what was",
    ),
    "another newest change": (body("s2", "s3", f"{SHOP} AND part > 0"), "of `shop` is not what was written"),
    "no newest change": (
        f"DELETE FROM reconcile.objects WHERE {SHOP} AND part > 0",
        "the head of `shop` does",
    ),
    "a change twice": (
        "INSERT INTO reconcile.objects SELECT key, 99, tag, body, written_at FROM reconcile.objects"
        f" WHERE {SHOP} AND part > 0 ORDER BY part DESC LIMIT 1",
        "of `shop` does not follow",
    ),
    "no first line": (
        f"DELETE FROM reconcile.objects WHERE {SHOP} AND part = 0",
        "the head of `shop` is missing",
    ),
    "no head": (
        "DELETE FROM reconcile.objects WHERE key LIKE '%/heads/blog'",
        "the head of `blog` is missing",
    ),
    "nothing of a scope": (
        "DELETE FROM reconcile.objects WHERE key LIKE '%/shop' OR key LIKE '%/shop/%'",
        "the head of `shop` is missing",
    ),
    "another scope's head": (
        "UPDATE reconcile.objects o SET body = n.body FROM reconcile.objects n"
        f" WHERE o.{SHOP} AND o.part = 0 AND n.key LIKE '%/heads/blog' AND n.part = 0",
        "the head of `shop` is that of another scope",
    ),
    "no records": ("DELETE FROM reconcile.objects WHERE key LIKE '%/base/shop/%'", "is missing"),
    "other records": (
        "UPDATE reconcile.objects SET body = '\\x00' WHERE key LIKE '%/base/shop/%'",
        "is not what was written",
    ),
    "another key": (body('"key": "', '"key": "AA', "key LIKE '%/state.json'"), "state.json is not what was"),
    "a scope that the root does not name": (
        body('"shop"', '"shap"', "key LIKE '%/state.json'"),
        "state.json is not what was written",
    ),
}


@pytest.mark.parametrize("what", SEEN_BY_READING)
async def test_damage_is_told_when_the_state_is_read(
    handles: Handles, database: Postgres, store: PostgresStore, what: str
) -> None:
    change, told = SEEN_BY_READING[what]
    assert database.rows(f"{change} RETURNING 1")
    for attempt in (handles.open().load, handles.open().verify, lambda: handles.open().lease(["shop"], "me")):
        with pytest.raises(StoreError, match="is damaged") as damaged:
            await attempt()
        assert told in damaged.value.message
        assert "reconcile state restore FILE" in damaged.value.help


@pytest.mark.parametrize(
    "change", ["DELETE FROM reconcile.objects", "UPDATE reconcile.objects SET body = '\\x00'"]
)
async def test_damage_to_old_changes_is_told_when_all_is_read(
    handles: Handles, database: Postgres, store: PostgresStore, change: str
) -> None:
    assert database.rows(f"{change} WHERE key LIKE '%/journal/shop/%' RETURNING 1")
    other = handles.open()
    await other.load()
    for attempt in (other.verify, other.journal):
        with pytest.raises(StoreError, match="is damaged"):
            await attempt()


async def test_a_table_that_lost_its_key_is_told_when_a_lease_is_taken(
    handles: Handles, database: Postgres, store: PostgresStore
) -> None:
    """It could hold an object twice."""
    database.rows("ALTER TABLE reconcile.objects DROP CONSTRAINT objects_pkey")
    with pytest.raises(StoreError, match="lost its primary key"):
        await handles.open().lease([WHOLE_STATE], "me")


async def test_a_commit_on_a_head_that_was_changed_stores_nothing(
    handles: Handles, database: Postgres, store: PostgresStore
) -> None:
    lease = await store.lease(["shop"], "me")
    database.rows(f"UPDATE reconcile.objects SET tag = 'x' WHERE {SHOP} AND part = 0")
    database.rows(body('"record_serial":3', '"record_serial":4', f"{SHOP} AND part = 0"))
    with pytest.raises(StoreError, match="the head of `shop` is not what was written"):
        await store.commit(lease, [entry(Event.INTENT, "s9")])
    with pytest.raises(StoreError, match="is damaged"):
        await handles.open().load()
