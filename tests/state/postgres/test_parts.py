"""A head in parts: each commit adds its change, and no commit writes all of them again."""

import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log import segments
from reconciler.state.store import Event
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import Handles
from tests.state.worlds import entry

pytestmark = pytest.mark.slow

PARTS = "SELECT part, octet_length(body) FROM reconcile.objects WHERE key LIKE '%/heads/shop' ORDER BY part"


async def test_a_commit_adds_a_part(handles: Handles, database: Postgres) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    for number in range(5):
        before = database.rows(PARTS)
        await store.commit(lease, [entry(Event.DONE, f"s{number}")])
        assert database.rows(PARTS)[1:-1] == before[1:]
    assert len(database.rows(PARTS)) == 6
    assert len(await handles.open().journal()) == 5


async def test_a_process_that_did_not_write_them_writes_them_once(
    handles: Handles, database: Postgres
) -> None:
    store = handles.open()
    await store.create()
    for number in range(3):
        other = handles.open()
        lease = await other.lease(["shop"], "me")
        for each in range(3):
            await other.commit(lease, [entry(Event.DONE, f"s{number}-{each}")])
        await other.release(lease)
    assert len(database.rows(PARTS)) == 5  # the first line, what two others had written, and three changes
    assert len(await store.journal()) == 9
    await store.verify()


async def test_a_commit_that_comes_too_late_adds_nothing(handles: Handles, database: Postgres) -> None:
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    for number in range(2):
        await store.commit(lease, [entry(Event.DONE, f"s{number}")])
    await handles.open().unlock("shop", force=True, by="ben")
    before = database.rows(PARTS)
    with pytest.raises(StoreError, match="no longer ours"):
        await store.commit(lease, [entry(Event.DONE, "late")])
    assert database.rows(PARTS) == before
    await handles.open().verify()


async def test_what_moved_to_a_segment_is_no_part_any_more(
    handles: Handles, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "TAIL_BYTES", 1000)
    store = handles.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    for number in range(30):
        await store.commit(lease, [entry(Event.DONE, f"s{number}")])
        assert sum(size for part, size in database.rows(PARTS) if part) < 1500
    other = handles.open()
    assert [each.step for _, each in await other.journal()] == [f"s{number}" for number in range(30)]
    await other.verify()
