"""What is the SQLite store's own, beside the promises of every store (`test_contract.py`)."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.core.errors import StoreError
from reconciler.state import backend_of, files_of, open_store
from reconciler.state.log.bucket import PreconditionFailed
from reconciler.state.places.memory import MemoryBucket, MemoryState, MemoryStore, holding_state
from reconciler.state.places.sqlite.state_file import StateFile
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event, Lease, State, Store
from tests.state.conftest import OpenStore
from tests.state.worlds import DATA, SimulatedClock, entry, record


async def test_reading_a_state_that_does_not_exist_makes_no_folder(opened: SqliteStore, path: Path) -> None:
    for read in (opened.load, opened.fingerprint_key, opened.verify):
        await read()
    assert not path.parent.exists()


async def test_concurrent_commits_share_a_transaction(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[int] = []
    monkeypatch.setattr(StateFile, "_tell_seen", lambda file, found: changes.append(found[0]))
    scopes = [f"app{number}" for number in range(8)]
    lease = await store.lease(scopes, "me")
    changes.clear()
    async with anyio.create_task_group() as tasks:
        with store._file._turn:
            for scope in scopes:
                tasks.start_soon(store.commit, lease.of(scope), [entry(Event.DONE, scope)])
                await anyio.wait_all_tasks_blocked()
    first, second = changes  # the first one did not wait for others
    assert second - first == 7


async def test_a_write_that_fails_does_not_fail_its_neighbours(
    store: SqliteStore, another: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines = StateFile._write_lines

    def failing(file: StateFile, connection: sqlite3.Connection, key: str, *rest: Any) -> None:
        if key.endswith("/bad"):
            raise sqlite3.OperationalError("disk I/O error")
        write_lines(file, connection, key, *rest)

    lease = await store.lease(["bad", "good"], "me")
    monkeypatch.setattr(StateFile, "_write_lines", failing)
    async with anyio.create_task_group() as tasks:
        with store._file._turn:
            for scope in ("first", "bad", "good"):
                tasks.start_soon(_committed, store, lease.of("good" if scope == "first" else scope))
                await anyio.wait_all_tasks_blocked()
    assert [scope for scope, _ in await another().journal()] == ["good", "good"]


async def test_what_was_written_before_a_failure_is_stored(store: SqliteStore) -> None:
    """Whoever wrote it takes it for stored, and goes on from there."""

    def write(key: str) -> None:
        if key == "stop":
            raise StoreError("it stops here")
        store._file.create(key, b"something")

    with pytest.raises(StoreError, match="it stops here"):
        store._file.in_parallel(write, ["base/folder/one", "stop", "base/folder/two"])
    assert list(store._file.list("base/folder/")) == ["base/folder/one"]


async def _committed(store: SqliteStore, lease: Lease) -> None:
    with suppress(StoreError):
        await store.commit(lease, [entry(Event.DONE, lease.scope)])


async def test_a_commit_is_finished_although_its_task_is_cancelled(store: SqliteStore) -> None:
    lease = await store.lease(["shop"], "me")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.commit(lease, [], [record()])
    assert DATA in (await store.load()).records


async def test_a_state_is_read_again_only_after_something_changed(
    store: SqliteStore, another: OpenStore
) -> None:
    lease, other = await store.lease(["shop"], "me"), another()
    await store.commit(lease, [], [record()])
    known = await other.load()
    assert set(known.records) == {DATA}
    for _ in range(3):
        third = another()
        await third.release(await third.lease(["shop2"], "ben"))
        known = await other.load()
        assert await other.load() is known
    await store.commit(lease, [], remove=[DATA])
    assert (await other.load()).records == {}


def test_a_url_is_relative_to_the_root(tmp_path: Path) -> None:
    async def create(store: Store) -> None:
        await store.create()
        await store.close()

    anyio.run(create, open_store("sqlite:deep/er/state.db", root=tmp_path, clock=SimulatedClock()))
    assert (tmp_path / "deep" / "er" / "state.db").is_file()


@pytest.mark.parametrize("url", ["mysql://user:hunter2@db/state", "state.db", "", "sqlite:", "s3:"])
def test_an_unknown_backend_is_refused_without_repeating_a_password(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(url, root=tmp_path, clock=SimulatedClock())
    assert "sqlite:PATH" in refused.value.help
    assert "hunter2" not in str(refused.value) + refused.value.help


def test_only_a_file_has_files(tmp_path: Path) -> None:
    clock = SimulatedClock()
    assert isinstance(backend_of(open_store("sqlite:state.db", root=tmp_path, clock=clock)), SqliteStore)
    memory = MemoryStore(MemoryState(clock))
    assert backend_of(memory) is memory
    assert files_of(memory) is None
    assert backend_of(Store(Store(memory))) is memory


async def test_the_place_in_memory_takes_what_fits_what_is_there(clock: SimulatedClock) -> None:
    assert MemoryStore(holding_state(State("", {}, (), frozenset()), b"", clock)).state.lineage == ""
    bucket = MemoryBucket(MemoryState(clock))
    tag = bucket.create("key", b"one")
    for tag_of_another in ("", "another"):
        with pytest.raises(PreconditionFailed):
            bucket.replace("key", b"two", tag_of_another)
    assert bucket.replace("key", b"two", tag) != tag
