"""Backups in a file of states that have no files, and the way back."""

from pathlib import Path

import pytest

from reconciler.core.errors import StateMoved, StoreError
from reconciler.project.copies import backup, restore
from reconciler.state.places.memory import MemoryState, MemoryStore
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import LOST_ROWS
from tests.state.moving import THERE, filled
from tests.state.worlds import SimulatedClock


@pytest.fixture
async def here(clock: SimulatedClock) -> MemoryStore:
    store = MemoryStore(MemoryState(clock))
    await filled(store)
    return store


async def test_a_backup_holds_all_and_says_what_it_cannot_know(
    here: MemoryStore, tmp_path: Path, clock: SimulatedClock
) -> None:
    file = await backup(here, tmp_path / "backup.db", clock)
    await SqliteStore(file, clock).verify()
    there = MemoryStore(MemoryState(clock))
    done = await restore(there, file, "", clock, "me")
    before, after = await here.load(), await there.load()
    assert after.records == before.records
    assert after.open_intents == before.open_intents
    assert await there.fingerprint_key() == await here.fingerprint_key()
    (told,) = (each for each in after.unclaimed if each not in before.unclaimed)
    assert told.data["unclaimed"] == LOST_ROWS
    assert told.data["because"] == done.lost
    rows = (await there.export()).rows
    assert set(rows).issuperset((await here.export()).rows)
    with pytest.raises(StoreError, match="there is a state"):
        await restore(there, file, "", clock, "me")


async def test_a_backup_takes_no_other_file(here: MemoryStore, tmp_path: Path, clock: SimulatedClock) -> None:
    file = await backup(here, tmp_path / "backup.db", clock)
    with pytest.raises(StoreError, match="there is a state"):
        await backup(here, file, clock)
    for attempt in (backup(here, None, clock), restore(here, None, "", clock, "me")):
        with pytest.raises(StoreError, match="keeps no backups beside itself"):
            await attempt


async def test_what_has_moved_is_neither_backed_up_nor_restored(
    here: MemoryStore, tmp_path: Path, clock: SimulatedClock
) -> None:
    file = await backup(here, tmp_path / "backup.db", clock)
    old = SqliteStore(file, clock)
    await old.retire(THERE, await old.export())
    await old.close()
    await here.retire(THERE, await here.export())
    for attempt in (
        backup(here, tmp_path / "other.db", clock),
        restore(MemoryStore(MemoryState(clock)), file, "", clock, "me"),
    ):
        with pytest.raises(StateMoved):
            await attempt


async def test_a_state_in_a_file_has_backups_of_its_own(path: Path, clock: SimulatedClock) -> None:
    store = SqliteStore(path, clock)
    await filled(store)
    made = await backup(store, None, clock)
    assert made.parent == path.with_name("state.db.backups")
    await restore(store, made, "", clock, "me")
    await store.close()
