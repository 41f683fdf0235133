"""What only a state in a file has to do when it is carried elsewhere; see also `MovableContract`."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.errors import StateMoved, StoreError
from reconciler.state.contents import same, verify
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.altering import alter
from tests.state.moving import THERE, filled
from tests.state.test_migrations import left_by
from tests.state.worlds import SimulatedClock, entry


@pytest.fixture
async def store(path: Path, clock: SimulatedClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock)
    await filled(store)
    yield store
    await store.close()


async def test_a_backup_does_not_bring_a_moved_state_back(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    backup = await store.backup(tmp_path / "backup.db")
    await store.retire(THERE, await store.export())
    for attempt in (store.restore(), store.restore(backup), store.backup(tmp_path / "other.db")):
        with pytest.raises(StateMoved):
            await attempt


async def test_a_copy_comes_to_no_place_where_an_older_state_left_traces(
    store: SqliteStore, tmp_path: Path, clock: SimulatedClock
) -> None:
    contents = await store.export()
    for name in ("other.db.spool", "other.db.key", "other.db.seen"):
        trace = tmp_path / name
        trace.write_bytes(b"k" * 32)
        with pytest.raises(StoreError, match=f"{name} still exists"):
            await SqliteStore(tmp_path / "other.db", clock).import_(contents)
        trace.unlink()
    (tmp_path / "other.db.key").write_bytes(contents.key)  # an attempt that was killed
    await SqliteStore(tmp_path / "other.db", clock).import_(contents)


async def test_a_copy_is_replaced_while_a_process_reads_it(
    store: SqliteStore, tmp_path: Path, clock: SimulatedClock
) -> None:
    contents = replace(await store.export(), moved_to="elsewhere")
    copy = SqliteStore(tmp_path / "copy.db", clock)
    await copy.import_(contents)
    await copy.revive()
    with closing(sqlite3.connect(tmp_path / "copy.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT * FROM objects").fetchall()
        await copy.retire("elsewhere", contents)
        await copy.import_(contents)
        assert reader.execute("SELECT * FROM objects").fetchall() == before
    await copy.revive()
    assert await copy.load() == await store.load()
    await copy.close()


async def test_a_state_stays_that_of_its_environment(path: Path, clock: SimulatedClock) -> None:
    first = SqliteStore(path, clock)
    await first.create()
    await first.take_over("staging", by="me")
    await first.close()
    staging = SqliteStore(path, clock, environment="staging")
    copy = path.with_name("copy.db")
    target = SqliteStore(copy, clock, environment="staging")
    await target.import_(await staging.export())
    assert await target.load() == await staging.load()
    await staging.close()
    await target.close()
    with pytest.raises(StoreError, match="belongs to environment `staging`"):
        await SqliteStore(copy, clock).load()


async def test_damage_is_told_and_not_carried_elsewhere(store: SqliteStore, path: Path) -> None:
    await store.close()
    alter(path, "heads/shop", b"step.intent", b"step.failed", fits=True)
    with pytest.raises(StoreError, match="not what was written"):
        verify(await store.export())


async def test_a_file_of_version_3_moves_with_a_chain_for_each_scope(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    old = tmp_path / "old" / "state.db"
    left_by(3, old)
    source, target = SqliteStore(old, clock), SqliteStore(tmp_path / "new.db", clock)
    contents = await source.export()
    await target.import_(contents)
    assert await target.load() == await source.load()
    assert same(await target.export(), contents)
    memory = MemoryStore(MemoryState(clock))
    await memory.import_(contents)
    lease = await memory.lease(["brand-new"], "me")
    await memory.commit(lease, [entry(Event.INTENT)])
    verify(await memory.export())
    await source.close()
    await target.close()
