"""All that a state holds is checked when it is read, and the way out is named."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.log import segments
from reconciler.state.log.damage import sealed, unsealed
from reconciler.state.places.sqlite import files
from reconciler.state.places.sqlite.bucket import digest_of, tag_of
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.altering import alter, execute
from tests.state.conftest import OpenStore
from tests.state.test_files import fill
from tests.state.worlds import DATA, entry, record


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
        ("UPDATE changes SET serial = 'x'", "does not count its changes"),
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (rb"size_gb\":10", rb"size_gb\":11"),
        (rb"size_gb\":10", b"\xff" + rb"ize_gb\":10"),
        (b'"logs","shop",0,3,', b'"logs","shop",0,4,'),
        (b'"logs","shop",0,3,', b'"logs","shop",7,3,'),
        (b'"step.done"', b'"step.fail"'),
        (b"2030-01-01T12", b"2031-01-01T12"),
        (rb"vol_1\"]", rb"vol_2\"]"),
        (b'"step.unknown"', b'"step.done"'),
        (b'"plan\\":', b'"plqn\\":'),
    ],
)
@pytest.mark.parametrize("fits", [True, False])
async def test_any_change_of_a_record_or_of_the_journal_is_found(
    store: SqliteStore, another: OpenStore, path: Path, before: bytes, after: bytes, fits: bool
) -> None:
    await fill(store)
    await another().verify()
    alter(path, "heads/shop", before, after, fits=fits)
    for attempt in (another().load, another().journal, another().verify):
        with pytest.raises(StoreError, match=r"is damaged.*shop") as damaged:
            await attempt()
        assert str(path) in str(damaged.value)
        assert "backup" in damaged.value.help


@pytest.mark.parametrize("kind", ["journal", "base"])
async def test_a_change_of_an_older_object_is_found(
    store: SqliteStore, another: OpenStore, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments decide nothing where there is a base: who reads them finds it."""
    monkeypatch.setattr(segments, "TAIL_BYTES", 400)
    monkeypatch.setattr(segments, "BASE_BYTES", 400)
    lease = await store.lease(["shop"], "anna")
    for number in range(9):
        await store.commit(lease, [entry(Event.INTENT, f"s{number}"), entry(Event.DONE, f"s{number}")])
    await store.release(lease)
    await store.close()
    await another().verify()
    execute(path, f"UPDATE objects SET body = body || x'00' WHERE key LIKE '%/{kind}/shop/%'")
    for attempt in (another().verify, another().backup, another().journal):
        with pytest.raises(StoreError, match=rf"is damaged: .*{kind}/shop/"):
            await attempt()


async def test_a_damaged_fingerprint_key_is_refused(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await fill(store)
    path.with_name("state.db.key").write_bytes(b"short")
    with pytest.raises(StoreError, match=r"state\.db\.key does not contain a fingerprint key"):
        await another().fingerprint_key()


# --- what the journal itself finds, where all digests were made to fit ---


def lines_of(path: Path) -> tuple[str, list[bytes]]:
    """The key of the head of `shop`, and its lines."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT key, body FROM objects WHERE key LIKE '%/heads/shop'"
        key, first = connection.execute(query).fetchone()
        rest = connection.execute("SELECT line FROM lines WHERE head = ? ORDER BY number", (key,))
        return key, [first, *(line for (line,) in rest)]


def forge(path: Path, change: Callable[[list[bytes]], list[bytes]], **fields: Any) -> None:
    """Change the lines of the head of `shop`, and fields of the first; and make all digests fit."""
    key, lines = lines_of(path)
    first = json.dumps(sealed(unsealed(json.loads(lines[0])) | fields)).encode()
    rows = [(key, number, digest_of(line), line) for number, line in enumerate(change(lines[1:]), 1)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE objects SET tag = ?, body = ? WHERE key = ?", (tag_of(first), first, key))
        connection.execute("DELETE FROM lines WHERE head = ?", (key,))
        connection.executemany("INSERT INTO lines VALUES (?,?,?,?)", rows)
        connection.commit()
    files.seen_path(path).unlink()


async def test_a_head_that_was_put_back_with_its_digests_is_found(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """A scope would go on from an earlier row of its chain, and give a serial twice."""
    await fill(store)
    hash = json.loads(lines_of(path)[1][1])["rows"][3][-1]
    forge(path, list, seq=4, hash=hash)
    for attempt in (another().load, another().verify):
        with pytest.raises(StoreError, match="the head of `shop` does not fit its journal"):
            await attempt()


async def test_another_change_at_the_end_is_not_the_one_that_was_written(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """Two histories that go on from the same row: each of them is a sound chain."""
    await fill(store)
    before = path.read_bytes()
    ends = []
    for step in ("a", "b"):
        path.write_bytes(before)
        files.seen_path(path).unlink()
        other = another()
        lease = await other.lease(["shop"], "anna")
        await other.commit(lease, [entry(Event.DONE, step)])
        await other.close()
        ends.append(lines_of(path)[1][-1])
    forge(path, lambda lines: [*lines[:-1], ends[0]])
    with pytest.raises(StoreError, match="the head of `shop` does not fit its journal"):
        await another().load()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda lines: [lines[0], *lines[2:]], "change 3 of `shop` does not follow the one before it"),
        (lambda lines: lines[:-1], "does not fit its journal|follow"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "change 2 of `shop` does not follow"),
        (lambda lines: [line.replace(b'"s3"', b'"s9"') for line in lines], "change 2 of `shop` is not what"),
        (lambda lines: [line.replace(b"T12:", b"T13:") for line in lines], "change 1 of `shop` is not what"),
    ],
)
async def test_the_chain_of_a_scope_is_followed_when_it_is_read(
    store: SqliteStore, another: OpenStore, path: Path, change: Any, named: str
) -> None:
    await fill(store)
    other = another()
    lease = await other.lease(["shop"], "anna")
    for step in ("s3", "s4"):
        await other.commit(lease, [entry(Event.DONE, step)])
    await other.verify()
    await other.close()
    forge(path, change)
    for attempt in (another().load, another().journal, another().verify):
        with pytest.raises(StoreError, match=f"{named}|changes of `shop` are missing"):
            await attempt()


async def test_a_run_without_a_plan_and_a_decision_about_something_else_change_no_list(
    store: SqliteStore,
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.RUN_STARTED, ""), entry(Event.DECIDED, "", forget="vol_1")])
    state = await store.load()
    assert (state.plans_run, state.unclaimed) == (frozenset(), ())
    await store.verify()
