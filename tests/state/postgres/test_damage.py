"""What somebody changed in the table itself is told and not believed; see also `test_tampering`."""

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log import segments
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.store import WHOLE_STATE, Event
from tests.providers.postgres import Postgres
from tests.state.moving import filled
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry

pytestmark = pytest.mark.slow


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
    database.rows(body('"record_serial": 3', '"record_serial": 4', f"{SHOP} AND part = 0"))
    with pytest.raises(StoreError, match="the head of `shop` is not what was written"):
        await store.commit(lease, [entry(Event.INTENT, "s9")])
    with pytest.raises(StoreError, match="is damaged"):
        await handles.open().load()
