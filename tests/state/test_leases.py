"""Who may write: one holder a scope, whatever dies."""

import errno
import fcntl
import gc
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.core.errors import Locked, StoreError
from reconciler.state.log import root
from reconciler.state.places.sqlite import locks
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event
from tests.state.conftest import OpenStore
from tests.state.worlds import entry

Child = subprocess.Popen[str]


@pytest.fixture
def child(path: Path) -> Iterator[Callable[[str], Child]]:
    """Starts another process that takes the lease of a scope when told to."""
    children: list[Child] = []

    def start(scope: str) -> Child:
        arguments = [sys.executable, "-m", "tests.state.child", "leases", str(path), scope]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(process)
        assert heard(process) == "ready"
        return process

    yield start
    for process in children:
        process.kill()
        process.communicate()


def tell(process: Child) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def heard(process: Child) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_a_holder_whose_lock_was_lost_can_no_longer_write(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    """As on a file system that forgets locks, or when somebody removes the lock file."""
    stale = await store.lease(["shop"], "anna")
    await store.check(stale)
    store._exclusion.close()
    await another().lease(["shop"], "ben")
    with pytest.raises(StoreError, match="no longer ours"):
        await store.commit(stale, [entry(Event.INTENT)])
    assert (await store.load()).open_intents == ()


async def test_a_check_waits_for_no_commit_and_sees_who_took_the_lease_meanwhile(
    store: SqliteStore, another: OpenStore
) -> None:
    lease = await store.lease(["shop"], "anna")
    said: list[str] = []

    async def check() -> None:
        try:
            await store.check(lease)
        except StoreError as failure:
            said.append(failure.message)
        else:
            said.append("ours")

    with store._file._turn:  # as while a commit is being written
        await check()
        await another().unlock("shop", force=True)
        await check()
    assert said == ["ours", "the lease of `shop` is no longer ours"]


@pytest.mark.slow
async def test_a_thousand_scopes_need_one_descriptor(store: SqliteStore) -> None:
    descriptors = Path("/proc/self/fd")
    warm = await store.lease(["warm"], "anna")
    gc.collect()  # what other tests left open must not close meanwhile
    before = len(list(descriptors.iterdir()))
    lease = await store.lease([f"app{number}" for number in range(1000)], "anna")
    assert len(list(descriptors.iterdir())) == before
    await store.release(lease)
    await store.release(warm)
    assert len(list(descriptors.iterdir())) == before - 1


async def test_exactly_one_of_two_processes_gets_the_lease(child: Callable[[str], Child]) -> None:
    racers = [child("shop"), child("shop")]
    for racer in racers:
        tell(racer)
    assert sorted(heard(racer) for racer in racers) == ["locked", "taken"]


async def test_a_state_that_another_process_makes_and_locks_meanwhile_is_not_damaged(
    store: SqliteStore, another: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there at the first look, and its heads are at the second."""
    await store.release(await store.lease(["shop"], "anna"))
    answers, read = [None], root.read
    monkeypatch.setattr(root, "read", lambda *given: answers.pop() if answers else read(*given))
    assert not await another().create()
    assert answers == []


async def test_a_killed_process_frees_its_lease_at_once(
    child: Callable[[str], Child], store: SqliteStore, path: Path
) -> None:
    holder = child("shop")
    tell(holder)
    assert heard(holder) == "taken"
    with pytest.raises(Locked, match=f"process {holder.pid}"):
        await store.lease(["shop"], "anna")
    with pytest.raises(Locked, match="another process"), locks.nobody_else(path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    lease = await store.lease(["shop"], "anna")
    assert lease.epochs == {"shop": 2}


async def test_who_restores_the_state_keeps_all_scopes(
    store: SqliteStore, another: OpenStore, path: Path
) -> None:
    await store.release(await store.lease(["shop"], "anna"))
    with locks.nobody_else(path), pytest.raises(Locked, match="another process"):
        await another().lease(["shop"], "ben")
    await another().lease(["shop"], "ben")


def test_all_bytes_at_once_exclude_every_one(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert locks.try_lock(file, 7)
    assert not locks.try_lock(file, locks.ALL)
    locks.unlock(file, 7)
    assert locks.try_lock(file, locks.ALL)
    assert not locks.try_lock(file, 7)
    locks.unlock(file, locks.ALL)
    assert locks.try_lock(file, 7)
    locks.unlock(file, 7)


def test_asking_for_a_lock_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not locks.is_locked(file, 7)
    assert not file.exists()
    assert locks.try_lock(file, 7)
    assert locks.is_locked(file, 7)
    assert not locks.is_locked(file, 8)
    locks.unlock(file, 7)
    assert not locks.is_locked(file, 7)


def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(OSError, match="no locks"):
        locks.try_lock(tmp_path / "lock", 1)


def test_a_lock_is_never_of_a_negative_age() -> None:
    """Its holder's clock, or the store's, may show a later time."""
    held = Locked("shop", "anna", -777_600)
    assert (held.age_s, held.message) == (0, "`shop` has been locked by anna for 0 s")
