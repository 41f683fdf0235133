"""Runners that are killed, or stopped for longer than their lease lasts: the next one goes on by itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.errors import Locked
from reconciler.state.contents import verify
from reconciler.state.log.lease_beats import Watched
from reconciler.state.log.store import LogStore
from reconciler.state.store import Event, Lease
from tests.state.objects.child import LEASE_S
from tests.state.objects.conftest import S3
from tests.state.worlds import entry

pytestmark = pytest.mark.slow


class Child:
    """A runner in a process of its own. `world`: what it has sent."""

    def __init__(self, s3: S3, world: Path) -> None:
        command = [sys.executable, "-m", "tests.state.objects.child", s3.endpoint, s3.url, str(world)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._world = world
        world.touch()

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def read_until(self, begins: str) -> str:
        line = self.read()
        while not line.startswith(begins):
            assert line, "it has ended"
            line = self.read()
        return line

    def sent(self) -> list[str]:
        return self._world.read_text().splitlines()


@pytest.fixture
async def store(s3: S3) -> LogStore:
    store = LogStore(s3.open(), SystemClock(), exclusion=Watched(SystemClock(), LEASE_S))
    await store.create()
    return store


@pytest.fixture
def child(s3: S3, store: LogStore, tmp_path: Path) -> Iterator[Child]:
    child = Child(s3, tmp_path / "world")
    yield child
    child.process.send_signal(signal.SIGCONT)
    child.process.kill()
    child.process.communicate()


async def taken(store: LogStore) -> Lease:
    """As a runner takes it that is started again and again, without any wait for locks."""
    while True:
        try:
            return await store.lease(["shop"], "the heir")
        except Locked:
            continue


async def whole(s3: S3) -> None:
    """The journal is, and no entry stands behind one of a later lease."""
    reader = LogStore(s3.open(), SystemClock())
    verify(await reader.export())
    epochs = [int(entry.run) for _, entry in await reader.journal() if entry.run]
    assert epochs == sorted(epochs)


@pytest.mark.parametrize("after", range(4))
async def test_a_killed_runners_scope_is_taken_by_the_next_one(
    s3: S3, store: LogStore, child: Child, after: int
) -> None:
    child.read_until(f"checked {after * 3}")
    child.process.kill()
    lease = await taken(store)
    state = await store.load()
    sent, done = len(child.sent()), len(state.records)
    unsettled = [each.step for each in state.open_intents]
    assert sent - done in (0, 1)
    assert len(unsettled) <= 1
    assert sent == done or unsettled == [
        f"s{done}"
    ]  # what was sent and is not known stands as an open intent
    await store.commit(lease, [entry(Event.INTENT, "next", run=str(lease.epochs["shop"]))])
    await whole(s3)


@pytest.mark.parametrize("after", range(4))
async def test_a_runner_that_was_stopped_beyond_its_lease_sends_and_writes_nothing_more(
    s3: S3, store: LogStore, child: Child, after: int
) -> None:
    child.read_until(f"checked {after * 3}")
    child.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.process.pid, os.WSTOPPED)
    lease = await taken(store)
    before = len(child.sent())
    await store.commit(lease, [entry(Event.INTENT, "next", run=str(lease.epochs["shop"]))])
    child.process.send_signal(signal.SIGCONT)
    assert "no longer ours" in child.read_until("ended")
    assert len(child.sent()) - before <= 1  # what was checked before the stop
    await store.check(lease)
    await whole(s3)


async def test_a_runner_that_lives_keeps_its_scope_however_long_it_takes(
    store: LogStore, child: Child
) -> None:
    child.read_until("checked 0")
    with pytest.raises(Locked, match="locked by the child"):
        await store.lease(["shop"], "the heir", timeout_s=3 * LEASE_S)
    child.read_until("checked")
