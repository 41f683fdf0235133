"""What becomes of the state when files, disks and processes fail."""

import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.places.sqlite import database
from reconciler.state.places.sqlite.database import connect, use_wal
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event, JournalEntry
from tests.state.altering import execute
from tests.state.conftest import OpenStore
from tests.state.worlds import DATA, NOON, entry, record

PAGE_BYTES = 4096


async def fill(store: SqliteStore) -> None:
    """Three records, a closed and an open intent, a plan run; everything in the main file."""
    lease = await store.lease(["shop"], "anna")
    await store.commit(
        lease,
        [
            JournalEntry("r1", Event.RUN_STARTED, NOON, data={"plan": "p1"}),
            entry(Event.INTENT),
            entry(Event.DONE),
            entry(Event.INTENT, "s2", baseline=["vol_1"]),
            entry(Event.UNKNOWN, "s2"),
        ],
        [record(), record(Address("Volume", "data", "shop", 1)), record(Address("Volume", "logs", "shop"))],
    )
    await store.release(lease)
    await store.close()


async def test_every_acknowledged_commit_survives_a_kill(path: Path, store: SqliteStore) -> None:
    arguments = [sys.executable, "-m", "tests.state.child", "commits", str(path), "shop"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(50)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]

    state = await store.load()
    stored = {address.name for address in state.records}
    assert acknowledged == list(range(len(acknowledged)))
    assert {f"data{number}" for number in acknowledged} <= stored
    assert len(stored) <= len(acknowledged) + 1
    assert state.open_intents == ()
    await store.verify()


async def test_only_the_owner_can_read_the_files(store: SqliteStore, path: Path) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.DONE)])
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(
        [f"state.db{suffix}" for suffix in ("", "-wal", "-shm", ".key", ".lock", ".seen")], 0o600
    )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_key_that_others_can_read_is_hidden_and_said(
    store: SqliteStore, path: Path, clock: Clock, read_only: bool
) -> None:
    await fill(store)
    key = path.with_name("state.db.key")
    key.chmod(0o644)
    told: list[str] = []
    for _ in range(2):
        again = SqliteStore(path, clock, tell=told.append, read_only=read_only)
        await again.load()
        await again.close()
    assert stat.S_IMODE(key.stat().st_mode) == (0o644 if read_only else 0o600)
    assert [str(key) in line for line in told] == ([True, True] if read_only else [True])


async def test_a_full_disk_fails_the_commit_and_only_that(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [], [record()])
    before = await store.load()
    connection = store._file._writing
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = entry(Event.INTENT, "s9", text="x" * 100_000)
    with pytest.raises(StoreError, match="no space left") as full:
        await store.commit(lease, [big], remove=[DATA])
    assert full.value.help
    assert await store.load() == before
    connection.execute("PRAGMA max_page_count = 100000")
    await store.commit(lease, [big])
    assert (await store.load()).open_intents == (big,)


async def test_a_full_disk_fails_no_commit_of_another_scope(store: SqliteStore) -> None:
    lease = await store.lease(["blog", "shop"], "anna")
    await store.commit(lease.of("shop"), [], [record()])
    connection = store._file._writing
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    big, small = entry(Event.INTENT, "s9", text="x" * 100_000), entry(Event.INTENT, "s8")
    said: list[str] = []

    async def commit(scope: str, intent: JournalEntry) -> None:
        try:
            await store.commit(lease.of(scope), [intent])
        except StoreError as failure:
            said.append(failure.message)

    async with anyio.create_task_group() as tasks:
        with store._file._turn:  # the first one waits alone; the others together
            tasks.start_soon(commit, "blog", replace(small, step="s7"))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(commit, "blog", small)
            tasks.start_soon(commit, "shop", big)
            await anyio.wait_all_tasks_blocked()
    assert [line.startswith("no space left") for line in said] == [True]
    assert {intent.step for intent in (await store.load()).open_intents} == {"s7", "s8"}
    connection.execute("PRAGMA max_page_count = 100000")
    await store.commit(lease.of("shop"), [big])
    assert len((await store.load()).open_intents) == 3
    await store.verify()


async def test_a_state_whose_file_was_removed_takes_no_more_commits(store: SqliteStore, path: Path) -> None:
    lease = await store.lease(["shop"], "anna")
    path.unlink()
    with pytest.raises(StoreError, match="cannot be read or written"):
        await store.commit(lease, [entry(Event.INTENT)])


async def test_a_state_whose_file_was_replaced_takes_no_more_commits(store: SqliteStore, path: Path) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.check(lease)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)
    with pytest.raises(StoreError, match="was replaced"):
        await store.check(lease)
    with pytest.raises(StoreError, match="was replaced"):
        await store.commit(lease, [entry(Event.INTENT)])


async def test_a_lost_database_is_not_taken_for_a_new_state(
    store: SqliteStore, path: Path, tmp_path: Path, clock: Clock
) -> None:
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [], [record()])
    half = tmp_path / "half" / "state.db"
    half.parent.mkdir()
    shutil.copy(path.with_name("state.db-wal"), half.with_name("state.db-wal"))
    lost = SqliteStore(half, clock)
    for attempt in (lost.load, lambda: lost.lease(["shop"], "ben")):
        with pytest.raises(StoreError, match=r"state\.db-wal with its newest changes"):
            await attempt()
    assert not half.exists()


@pytest.mark.parametrize("content", [b"", b"kind: Volume\n", b"SQLite format 3\0" + b"\1" * 4080])
async def test_a_file_that_is_no_state_is_refused_and_left_alone(
    opened: SqliteStore, path: Path, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    for attempt in (opened.load, opened.verify, lambda: opened.lease(["shop"], "anna")):
        with pytest.raises(StoreError, match=str(path)) as refused:
            await attempt()
        assert refused.value.help
    assert path.read_bytes() == content


async def test_the_database_of_another_program_is_refused_and_left_alone(
    opened: SqliteStore, path: Path
) -> None:
    path.parent.mkdir()
    execute(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a state of this program"):
        await opened.load()
    assert path.read_bytes() == before


async def test_a_newer_state_is_refused(store: SqliteStore, another: OpenStore, path: Path) -> None:
    await fill(store)
    execute(path, f"PRAGMA user_version = {database.VERSION + 1}")
    with pytest.raises(StoreError, match="written by a newer reconciler") as refused:
        await another().load()
    assert str(path) in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
async def test_no_flipped_byte_changes_what_is_known(
    store: SqliteStore, another: OpenStore, path: Path, tmp_path: Path, clock: Clock, bits: int
) -> None:
    """Reading either refuses, or finds the same records and open intents: in every page's header too."""
    await fill(store)
    known = await another().load()
    sound = path.read_bytes()
    refused = 0
    for position in (at for at in range(len(sound)) if at % PAGE_BYTES < 8 or at % 112 == 0):
        broken = tmp_path / f"{position}.db"
        broken.write_bytes(sound[:position] + bytes([sound[position] ^ bits]) + sound[position + 1 :])
        reader = SqliteStore(broken, clock)
        try:
            state = await reader.load()
        except StoreError:
            refused += 1
        else:
            assert (state.records, state.open_intents) == (known.records, known.open_intents), position
        await reader.close()
    assert refused > 0


@pytest.mark.parametrize("left", ["state.db.key", "state.db.seen", "state.db.spool", "state.db.damaged-1"])
async def test_no_state_is_made_where_an_older_one_left_something(
    opened: SqliteStore, path: Path, left: str
) -> None:
    path.parent.mkdir()
    path.with_name(left).write_bytes(b"what is left")
    with pytest.raises(StoreError, match=f"{left} still exists") as refused:
        await opened.create()
    assert "reconcile state restore FILE" in refused.value.help
    assert (await opened.load()).lineage == ""
    path.with_name(left).unlink()
    assert await opened.create()


@pytest.mark.parametrize("frees", [True, False])
async def test_two_that_make_a_state_at_once_wait_for_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch, frees: bool
) -> None:
    """Only a change of the journal mode is refused at once while another process reads or writes."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as other, closing(connect(path)) as ours:
        other.execute("CREATE TABLE t (a)")
        other.execute("BEGIN EXCLUSIVE")
        ours.execute("PRAGMA busy_timeout = 0")
        passed_s = [0.0]

        def sleep(seconds: float) -> None:
            passed_s[0] += 20
            if frees and other.in_transaction:
                other.execute("ROLLBACK")

        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(time, "monotonic", lambda: passed_s[0])
        if frees:
            use_wal(ours)
            assert ours.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        else:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                use_wal(ours)
        assert passed_s[0] == (20 if frees else 40)
