"""Bringing a backup back, with all that the damaged state still proves."""

import dataclasses
import errno
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from reconciler.core.errors import Locked, StoreError
from reconciler.core.model import Address
from reconciler.state.places.sqlite import backups, seen
from reconciler.state.places.sqlite.files import lock_path
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import LOST_ROWS, Event, State
from tests.state.altering import alter, execute
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import DATA, SimulatedClock, entry, record

LOGS = Address("Volume", "logs", "shop")
NEW = Address("Volume", "new", "shop")


async def go_on(store: SqliteStore, clock: SimulatedClock) -> State:
    """After the backup of `fill`: a create that was done, one under way, a removal, a change; no backup."""
    clock.elapsed_s += 3600
    lease = await store.lease(["shop"], "anna")
    records = (await store.load()).records
    created = replace(entry(Event.INTENT, "c1", creates=True, scope="shop"), address=NEW)
    await store.commit(lease, [created])
    await store.commit(lease, [replace(created, event=Event.DONE, data={"id": "vol_new"})], [record(NEW)])
    gone = replace(entry(Event.INTENT, "d1"), address=LOGS)
    await store.commit(lease, [gone])
    await store.commit(lease, [replace(gone, event=Event.DONE)], remove=[LOGS])
    await store.commit(lease, [entry(Event.INTENT, "e1")])
    await store.commit(lease, [entry(Event.DONE, "e1")], [replace(records[DATA], applied={"size_gb": 20})])
    lost = replace(created, step="c2", address=Address("PostgresCluster", "orders"))
    await store.commit(lease, [lost])
    state = await store.load()
    await store.close()
    return state


def overwrite(path: Path, text: bytes, *, times: int = 1) -> None:
    """Damage the bytes of `text` in the file."""
    content = path.read_bytes()
    assert text in content
    path.write_bytes(content.replace(text, b"#" * len(text), times))


async def test_a_damaged_journal_row_costs_that_row_only(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    known = await go_on(another(), clock)
    alter(path, "heads/shop", rb'"c2",1,"{\"creates\":true', rb'"c2",1,"{\"creates\":null')
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match="heads/shop is not what was written"):
        await another().load()

    restored = await another().restore(by="anna")
    assert Path(restored.aside).read_bytes() == damaged
    state = await another().load()
    await another().verify()
    assert state.records == known.records
    assert [intent.step for intent in state.open_intents] == ["s2"]
    assert "1 journal rows" in restored.lost
    assert "2030-01-01T13" in restored.lost
    assert restored.salvaged == 6


async def test_damage_beside_what_the_journal_proves_costs_nothing(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    known = await go_on(another(), clock)
    execute(path, "UPDATE objects SET tag = 'x' WHERE key LIKE '%/heads/shop'")
    restored = await another().restore()
    assert (restored.lost, restored.reopened, restored.key) == ("", (), "kept")
    assert await another().load() == known


async def test_a_call_whose_record_is_damaged_is_left_open(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    """Only what stands in the same change is lost with it."""
    await fill(store)
    known = await go_on(another(), clock)
    alter(path, "heads/shop", rb'["Volume","new","shop",0,4,', rb'["Volume","new","shop",0,5,')
    restored = await another().restore()
    state = await another().load()
    assert restored.reopened == (NEW,)
    assert {intent.step for intent in state.open_intents} == {"s2", "c1", "c2"}
    assert NEW not in state.records
    assert state.records[DATA] == known.records[DATA]
    assert LOGS not in state.records
    assert restored.salvaged == 6
    await another().verify()


async def test_a_file_that_is_no_database_any_more_leaves_the_backup(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    before = await another().load()
    known = await go_on(another(), clock)
    path.write_bytes(b"x" * 5000)
    path.with_name("state.db-wal").write_bytes(b"x" * 5000)
    restored = await another().restore()
    state = await another().load()
    assert dataclasses.replace(state, unclaimed=()) == before
    assert "7 journal rows between 2030-01-01T12:00:00+00:00 and 2030-01-01T13:00:00+00:00" in restored.lost
    assert (restored.salvaged, known == before) == (0, False)
    other = another()
    lease = await other.lease(["shop"], "anna")
    (stored,) = await other.commit(lease, [], [record(NEW)])
    assert stored.serial > max(one.serial for one in known.records.values())


async def test_a_state_that_is_gone_comes_back(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    known = await another().load()
    path.unlink()
    await another().restore()
    assert await another().load() == known


async def test_pages_that_cannot_be_read_stop_no_walk_from_the_other_end(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["blog", "shop"], "anna")
    for number in range(40):
        await other.commit(lease.of("shop"), [entry(Event.DONE, f"x{number}", text="y" * 900)])
    for number in range(10):
        await other.commit(lease.of("blog"), [entry(Event.DONE, f"z{number}")])
    await other.close()
    execute(path, "VACUUM")
    content = path.read_bytes()
    page = content.index(b"x20") // 4096
    path.write_bytes(content[: page * 4096] + b"\xff" * 4096 + content[page * 4096 + 4096 :])
    restored = await another().restore()
    assert 25 <= restored.salvaged < 50
    assert len(await another().journal()) > 25
    assert "journal rows" in restored.lost
    await another().verify()


async def test_what_a_person_forgot_or_moved_after_the_backup_stays_so(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    other = another()
    records = (await other.load()).records
    lease = await other.lease(["shop"], "anna")
    forgotten = replace(entry(Event.DECIDED, "", forget="vol_logs"), address=LOGS)
    await other.commit(lease, [forgotten], remove=[LOGS])
    moved = replace(entry(Event.DECIDED, ""), data={"from": str(DATA), "to": str(NEW), "id": "vol_data"})
    await other.commit(lease, [moved], [replace(records[DATA], address=NEW, serial=0)], [DATA])
    await other.close()
    execute(path, "UPDATE objects SET body = x'7b7d' WHERE key LIKE '%/heads/shop'")
    await another().restore()
    state = await another().load()
    assert set(state.records) == {Address("Volume", "data", "shop", 1), NEW}
    assert state.records[NEW].id == "vol_data"


async def test_a_lost_wal_is_told_with_what_to_check(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    other = another()
    clock.elapsed_s += 60
    lease = await other.lease(["shop"], "anna")
    await other.commit(lease, [entry(Event.INTENT, "n1")])
    half = tmp_path / "half" / path.name
    shutil.copytree(path.parent, half.parent)
    half.with_name("state.db-wal").unlink()
    half.with_name("state.db-shm").unlink()
    reader = SqliteStore(half, clock)
    with pytest.raises(StoreError, match=r"committed changes? (is|are) missing"):
        await reader.load()
    restored = await reader.restore()
    assert "1 journal rows between 2030-01-01T12:00:00" in restored.lost
    assert "look on the platform" in restored.lost
    assert [intent.step for intent in (await reader.load()).open_intents] == ["s2"]
    await reader.close()


async def test_a_restore_that_ended_half_way_still_finds_the_wal(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["shop"], "anna")
    await other.commit(lease, [entry(Event.INTENT, "n1")])
    half = tmp_path / "half" / path.name
    shutil.copytree(path.parent, half.parent)
    aside = half.with_name("state.db.damaged-20300101T120000Z")
    aside.hardlink_to(half)
    half.with_name("state.db-wal").rename(aside.with_name(aside.name + "-wal"))
    half.with_name("state.db-shm").unlink()
    reader = SqliteStore(half, clock)
    with pytest.raises(StoreError, match=r"committed changes? (is|are) missing"):
        await reader.load()
    await reader.close()
    restored = await reader.restore(backups.all_of(half)[0].path)
    assert restored.lost == ""
    assert {intent.step for intent in (await reader.load()).open_intents} == {"s2", "n1"}
    await reader.close()


async def test_a_damaged_root_costs_nothing(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    known = await go_on(another(), clock)
    alter(path, "state.json", b'"key": "', b'"key": "AAAA')
    with pytest.raises(StoreError, match=r"state\.json is not what was written"):
        await another().load()
    restored = await another().restore()
    assert (restored.key, restored.lost, restored.salvaged) == ("kept", "", 7)
    assert await another().load() == known


async def test_only_the_key_is_brought_back_when_only_the_key_is_lost(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    key = path.with_name("state.db.key")
    sound = key.read_bytes()
    key.write_bytes(b"k" * 32)
    restored = await another().restore()
    assert (restored.key, key.read_bytes()) == ("restored", sound)
    assert Path(restored.aside).read_bytes() == b"k" * 32
    await another().load()


async def test_a_new_key_is_the_last_resort(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    key = path.with_name("state.db.key")
    key.write_bytes(b"short")
    shutil.rmtree(backups.folder(path))
    assert (await another().restore()).key == "new"
    assert len(key.read_bytes()) == 32
    await another().verify()


async def test_state_and_key_come_back_together(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    known = await another().load()
    key = path.with_name("state.db.key")
    sound = key.read_bytes()
    key.unlink()
    execute(path, "DELETE FROM objects WHERE key = 'state.json'")
    assert (await another().restore()).key == "restored"
    assert key.read_bytes() == sound
    assert await another().load() == known


async def test_a_backup_without_its_key_is_refused_when_the_key_is_lost_too(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    path.with_name("state.db.key").unlink()
    execute(path, "DELETE FROM objects WHERE key = 'state.json'")
    (backup,) = backups.all_of(path)
    backup.path.with_name(backup.path.name + ".key").unlink()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is the key of this backup"):
        await another().restore()
    assert path.read_bytes() == before


async def test_a_sound_state_is_restored_only_from_a_named_backup(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock, tmp_path: Path
) -> None:
    await fill(store)
    mine = await another().backup(tmp_path / "mine.db")
    known = await go_on(another(), clock)
    with pytest.raises(StoreError, match="is not damaged"):
        await another().restore()
    restored = await another().restore(mine)
    assert restored.salvaged == 7
    assert await another().load() == known


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE objects SET body = x'00' WHERE key LIKE '%/heads/shop'",
        "UPDATE lines SET line = line || ' ' WHERE number = 1",
        "DELETE FROM lines WHERE number = 1",
        "DELETE FROM objects WHERE key LIKE '%/heads/shop'",
    ],
)
async def test_a_bad_backup_changes_nothing(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, change: str
) -> None:
    await fill(store)
    files = {file: file.read_bytes() for file in path.parent.glob("state.db*") if file.is_file()}
    bad = tmp_path / "bad.db"
    shutil.copy(backups.all_of(path)[0].path, bad)
    execute(bad, change)
    for file in (bad, tmp_path / "missing.db"):
        with pytest.raises(StoreError, match=file.name):
            await another().restore(file)
    assert {file: file.read_bytes() for file in files} == files


async def test_a_backup_of_another_state_is_refused(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    other = SqliteStore(tmp_path / "other" / "state.db", clock)
    await other.create()
    await fill(other)
    foreign = await other.backup(tmp_path / "foreign.db")
    await other.close()
    with pytest.raises(StoreError, match="backup of another state"):
        await another().restore(foreign)


async def test_no_backup_no_restore(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    shutil.rmtree(backups.folder(path))
    execute(path, "DELETE FROM objects WHERE key = 'state.json'")
    with pytest.raises(StoreError, match="is damaged") as damaged:
        await another().load()
    assert "no good backup" in damaged.value.help
    with pytest.raises(StoreError, match="no good backup"):
        await another().restore()


async def test_on_a_full_disk_nothing_is_changed(
    store: SqliteStore, another: OpenStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    await store.close()
    path.write_bytes(b"not a database")
    monkeypatch.setattr(shutil, "copyfile", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    with pytest.raises(StoreError, match="no space left for the state"):
        await another().restore()
    assert path.read_bytes() == b"not a database"


async def test_where_its_lock_cannot_be_made_a_state_is_not_restored(another: OpenStore, path: Path) -> None:
    lock_path(path).mkdir(parents=True)
    with pytest.raises(StoreError, match=r"cannot be read or written: .*Is a directory"):
        await another().restore()


async def test_a_restore_waits_for_no_holder(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    held = await store.lease(["shop"], "anna")
    with pytest.raises(Locked, match="anna"):
        await another().restore()
    await store.release(held)
    await store.lease(["shop"], "anna")
    await store.close()
    path.write_bytes(b"not a database")
    await another().restore()


async def test_what_was_seen_of_the_damaged_state_counts_no_more(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    await go_on(another(), clock)
    with closing(sqlite3.connect(path)) as connection:
        before = seen.of(connection)
    path.write_bytes(b"x")
    await another().restore()
    with closing(sqlite3.connect(path)) as connection:
        after = seen.of(connection)
    assert after.version > before.version
    assert after.serial >= before.serial


async def test_an_older_copy_in_the_state_s_place_does_not_undo_the_backup(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    """What was recorded since the copy is in the backup: to drop it would be to make it a second time."""
    await fill(store)
    older = path.read_bytes()
    known = await go_on(another(), clock)
    last = another()
    await last.release(await last.lease(["shop"], "anna"))  # takes what is left of the run, and a backup
    await last.backup()
    await last.close()
    path.write_bytes(older)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with pytest.raises(StoreError, match=r"committed changes? (is|are) missing"):
        await another().load()
    restored = await another().restore()
    state = await another().load()
    assert state.records == known.records
    assert [intent.step for intent in state.open_intents] == [intent.step for intent in known.open_intents]
    assert restored.lost == ""


async def test_a_state_that_is_gone_is_not_begun_anew_while_its_backups_are_there(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    path.unlink()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with pytest.raises(StoreError, match="is missing, but its backups") as gone:
        await another().load()
    assert "reconcile state restore" in gone.value.help
    with pytest.raises(StoreError, match="is missing, but its backups"):
        await another().lease(["shop"], "anna")
    await another().restore()
    assert DATA in (await another().load()).records


async def test_rows_that_are_lost_are_told_until_a_person_has_looked(
    store: SqliteStore, another: OpenStore, path: Path, clock: SimulatedClock
) -> None:
    await fill(store)
    await go_on(another(), clock)
    alter(path, "heads/shop", rb'"c2",1,"{\"creates\":true', rb'"c2",1,"{\"creates\":null')
    restored = await another().restore()
    (told,) = (await another().load()).unclaimed
    assert (told.data["unclaimed"], told.data["because"]) == (LOST_ROWS, restored.lost)
