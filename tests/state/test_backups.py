"""Copies of the state: made after commits, complete or absent, the newest few kept."""

import sqlite3
import stat
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.places.sqlite import backups
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.altering import alter
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import SimulatedClock, entry, record


async def commit_once(store: SqliteStore, name: str) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.DONE)], [record(Address("Volume", name, "shop"))])
    await store.release(lease)


async def test_a_release_after_commits_makes_a_backup_that_only_the_owner_can_read(
    store: SqliteStore, path: Path
) -> None:
    await store.release(await store.lease(["shop"], "anna"))
    assert backups.all_of(path) == []
    await commit_once(store, "data")
    (backup,) = backups.all_of(path)
    backups.verify(backup.path)
    assert stat.S_IMODE(backup.path.parent.stat().st_mode) == 0o700
    files = sorted(backup.path.parent.iterdir())
    assert [file.name for file in files] == [backup.path.name, f"{backup.path.name}.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert files[1].read_bytes() == await store.fingerprint_key()


async def test_the_newest_five_are_kept(store: SqliteStore, path: Path, clock: SimulatedClock) -> None:
    for number in range(7):
        clock.elapsed_s -= 10  # a clock that goes back does not confuse their order
        await commit_once(store, f"data{number}")
    found = backups.all_of(path)
    assert len(found) == backups.KEPT
    assert len(list(found[0].path.parent.iterdir())) == 2 * backups.KEPT
    newest = SqliteStore(found[0].path, clock, read_only=True)
    assert len((await newest.load()).records) == 7
    assert await newest.fingerprint_key() == await store.fingerprint_key()
    await newest.close()


async def test_a_backup_that_fails_is_told_and_the_release_stands(
    path: Path, clock: SimulatedClock, another: OpenStore
) -> None:
    told: list[str] = []
    store = SqliteStore(path, clock, tell=told.append)
    await store.create()
    backups.folder(path).write_text("not a directory")
    await commit_once(store, "data")
    assert len(told) == 1
    assert "no backup of the state was made" in told[0]
    await another().lease(["shop"], "ben")
    backups.folder(path).unlink()
    await store.release(await store.lease(["blog"], "anna"))
    assert len(backups.all_of(path)) == 1
    await store.close()


async def test_a_copy_that_does_not_verify_is_not_kept(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(file: Path) -> None:
        raise sqlite3.DatabaseError("planted")

    monkeypatch.setattr(backups, "verify", damaged)
    await commit_once(store, "data")
    assert list(backups.folder(path).iterdir()) == []


async def test_no_backups_where_they_are_switched_off(path: Path, clock: SimulatedClock) -> None:
    store = SqliteStore(path, clock, backups=False)
    await store.create()
    await commit_once(store, "data")
    await store.close()
    assert not backups.folder(path).exists()


async def test_a_backup_on_demand_goes_where_it_is_asked_to(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    await commit_once(store, "data")
    target = tmp_path / "mine.db"
    assert await store.backup(target) == target
    backups.verify(target)
    assert target.with_name("mine.db.key").exists()
    with pytest.raises(StoreError, match="exists already"):
        await store.backup(target)
    assert (await store.backup()).parent == backups.folder(path)


async def test_there_is_nothing_to_back_up_without_a_state(opened: SqliteStore) -> None:
    with pytest.raises(StoreError, match="there is no state"):
        await opened.backup()


async def test_a_damaged_state_is_not_backed_up(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    alter(path, "heads/shop", b"step.done", b"step.fail")
    with pytest.raises(StoreError, match="is damaged"):
        await another().backup()


async def test_the_newest_good_backup_is_looked_for(
    store: SqliteStore, path: Path, clock: SimulatedClock
) -> None:
    for name in ("data", "logs", "more"):
        clock.elapsed_s += 60
        await commit_once(store, name)
    newest, middle, _ = backups.all_of(path)
    newest.path.write_bytes(b"cut")
    (backups.folder(path) / "foreign-name.db").write_bytes(b"")
    assert backups.newest_good(path) == middle
