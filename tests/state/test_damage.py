"""Every live row is checked when the state is read, and the way out is named."""

from pathlib import Path

import pytest

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.places.sqlite import files
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.altering import alter, execute
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import DATA, entry, record

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DELETE FROM objects WHERE key = 'state.json'", "state.json is missing"),
        ("DELETE FROM objects WHERE key LIKE '%/heads/shop'", "the head of `shop` is missing"),
        (
            "UPDATE objects SET key = key || 'q' WHERE key LIKE '%/heads/shop'",
            "the head of `shop` is missing",
        ),
        ("UPDATE objects SET tag = 'x' WHERE key LIKE '%/heads/shop'", "heads/shop is not what was written"),
        (
            "UPDATE objects SET body = '{}' WHERE key LIKE '%/heads/shop'",
            "heads/shop is not what was written",
        ),
        ("UPDATE objects SET body = x'7b7d' WHERE key = 'state.json'", "state.json is not what was written"),
        ("DELETE FROM changes", "does not count its changes"),
        ("UPDATE changes SET number = number - 1", "1 committed change is missing"),
        ("UPDATE changes SET newest = 'x'", "newest change is not the one that was stored"),
    ],
)
async def test_a_change_of_any_live_row_is_named(
    store: SqliteStore, another: OpenStore, path: Path, change: str, named: str
) -> None:
    await fill(store)
    execute(path, change)
    with pytest.raises(StoreError, match=named) as damaged:
        await another().load()
    assert "newest good backup is from 2030-01-01 12:00:00 UTC" in damaged.value.help
    assert "reconcile state restore" in damaged.value.help


async def test_a_commit_never_covers_up_damage(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["shop"], "ben")
    alter(path, "heads/shop", b"step.done", b"step.fail")
    with pytest.raises(StoreError, match="is damaged"):
        await another().load()
    await other.commit(lease, [entry(Event.DONE, "s3")])
    with pytest.raises(StoreError, match="is damaged"):
        await another().verify()


@pytest.mark.parametrize(("content", "named"), [(b"k" * 32, "not the key"), (None, "missing")])
async def test_another_fingerprint_key_is_not_taken_for_ours(
    store: SqliteStore, another: OpenStore, path: Path, content: bytes | None, named: str
) -> None:
    await fill(store)
    key = path.with_name("state.db.key")
    if content is None:
        key.unlink()
    else:
        key.write_bytes(content)
    for attempt in (another().load, another().verify, lambda: another().lease(["shop"], "ben")):
        with pytest.raises(StoreError, match=named):
            await attempt()


async def test_commits_that_vanish_with_the_wal_are_missed(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, clock: Clock
) -> None:
    """A damaged page of the WAL makes SQLite forget it and all that follows, without a word."""
    lease = await store.lease(["shop"], "anna")
    for number in range(3):
        await store.commit(lease, [entry(Event.DONE, f"s{number}")])
    elsewhere = tmp_path / "copy" / path.name
    elsewhere.parent.mkdir()
    for file in path.parent.glob("state.db*"):
        if file.is_file():
            (elsewhere.parent / file.name).write_bytes(file.read_bytes())
    wal = elsewhere.with_name("state.db-wal")
    content = bytearray(wal.read_bytes())
    content[-2000] ^= 1
    wal.write_bytes(content)
    elsewhere.with_name("state.db-shm").unlink()
    reader = SqliteStore(elsewhere, clock)
    with pytest.raises(StoreError, match=r"last 1 committed change is missing"):
        await reader.load()
    await reader.close()


async def test_an_older_copy_put_in_its_place_is_not_taken_for_the_state(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    old = path.read_bytes()
    other = another()
    await other.release(await other.lease(["shop"], "ben"))
    await other.close()
    path.write_bytes(old)
    with pytest.raises(StoreError, match="committed changes are missing"):
        await another().load()


@pytest.mark.parametrize("content", [b"", b"\0" * 400, b"{}", b'{"check": 1}', b"[1]"])
async def test_what_was_seen_is_ignored_when_it_was_not_written_whole(
    store: SqliteStore, another: OpenStore, path: Path, content: bytes
) -> None:
    await fill(store)
    files.seen_path(path).write_bytes(content)
    assert len((await another().load()).records) == 3


async def test_another_history_of_the_same_length_is_not_taken_for_ours(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    before = path.read_bytes()
    other = another()
    await other.release(await other.lease(["shop"], "ben"))
    await other.close()
    seen = files.seen_path(path).read_bytes()
    path.write_bytes(before)
    files.seen_path(path).unlink()
    third = another()
    await third.release(await third.lease(["shop"], "carl"))
    await third.close()
    files.seen_path(path).write_bytes(seen)
    with pytest.raises(StoreError, match="not the one that was stored"):
        await another().load()


async def test_records_are_counted_as_they_come_and_go(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "anna")
    (first,) = await store.commit(lease, [], [record()])
    await store.commit(lease, [], [record(serial=first.serial)])
    await store.commit(lease, [], [record()], [DATA])
    await store.commit(lease, [], remove=[DATA])
    await store.commit(lease, [], remove=[DATA])
    assert (await store.load()).records == {}
    await store.verify()
