"""Part of the reads in a second process, a real one: whatever becomes of it, all are answered."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteStream

from reconciler.core.errors import Unauthorized
from reconciler.core.forking import forked
from reconciler.core.model import Observation
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Read
from reconciler.core.wire import many
from reconciler.services import beside
from reconciler.services.beside import Beside, Queue, SecondProcess
from reconciler.services.budget import Budget, line_of
from reconciler.services.client import Client
from reconciler.services.machines.service import platform_client
from reconciler.services.machines.wire.volume import Volume
from reconciler.services.observe import Unchanged, observe
from reconciler.services.rate import BURST
from reconciler.services.registry import Services
from reconciler.services.transport import HttpTransport
from tests.services.raw_server import Behaviour, RawServer, answer, closes, serving
from tests.services.script import SimulatedClock, platform

pytestmark = pytest.mark.anyio

MANY = 300  # apps, whose volumes are read


def read_of(app: int) -> Read:
    return Read(f"/v1/apps/app{app}/volumes", many(Volume))


def app_of(read: Read) -> int:
    assert isinstance(read.path, str)
    return int(read.path.split("/")[3].removeprefix("app"))


class Run:
    """`observe`, and what came of it: the apps whose answers came `here`, and those that were `spared`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.here: list[int] = []
        self.spared: list[int] = []
        self.incomplete: list[int] = []

    async def go(self, is_unchanged: Callable[[int], bool] = lambda app: True) -> None:
        await observe(
            Services({"platform": self.client}),
            ALL,
            self._take,
            clock=SimulatedClock(),
            reporter=Reporter(),
            at_once=8,
            budget=Budget(),
            unchanged=Unchanged(
                lambda read, seen: is_unchanged(app_of(read)), lambda read: self.spared.append(app_of(read))
            ),
        )

    def _take(self, read: Read, seen: Observation) -> None:
        self.here.append(app_of(read))
        if not seen.complete:
            self.incomplete.append(app_of(read))

    @property
    def has_all(self) -> bool:
        return sorted([*self.here, *self.spared]) == list(range(MANY)) and not self.incomplete


@asynccontextmanager
async def running(
    *behaviours: Behaviour, rate_limit: float | None = None
) -> AsyncIterator[tuple[Run, RawServer]]:
    async with serving(*behaviours) as server:
        transport = HttpTransport(server.url)
        yield (
            Run(
                platform_client(
                    transport,
                    server.url,
                    lambda: "t0ken",
                    SimulatedClock(),
                    rate_limit=rate_limit,
                    read_only=True,
                )
            ),
            server,
        )
        await transport.aclose()


ALL = [read_of(app) for app in range(MANY)]
EMPTY = answer(b"[]")


def asked(server: RawServer) -> Counter[str]:
    return Counter(head.split(" ")[1] for head in server.requests)


@pytest.fixture(autouse=True)
def may_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever threads the runner of the tests has: they wait."""
    monkeypatch.setattr(beside, "_may_fork", lambda: True)


@pytest.fixture
def only_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process takes all, so that what becomes of it does not depend on who is faster."""
    monkeypatch.setattr(Beside, "take", lambda self: iter(()))


async def test_two_processes_ask_for_each_once() -> None:
    async with running(EMPTY) as (run, server):
        await run.go()
        assert run.has_all
        assert set(asked(server).values()) == {1}
        assert all("Bearer t0ken" in head for head in server.requests)


@pytest.mark.usefixtures("only_beside")
async def test_only_answers_from_which_something_follows_come_over() -> None:
    async with running(EMPTY) as (run, server):
        await run.go(lambda app: app % 100 != 7)
        assert run.has_all
        assert sorted(run.here) == [7, 107, 207]
        assert set(asked(server).values()) == {1}


@pytest.mark.usefixtures("only_beside")
async def test_a_process_that_dies_leaves_nothing_unread() -> None:
    def dies(app: int) -> bool:
        if app == 150:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    async with running(EMPTY) as (run, server):
        await run.go(dies)
        assert run.has_all
        assert 150 in run.here
        assert run.spared
        assert max(asked(server).values()) == 2


@pytest.mark.usefixtures("only_beside")
async def test_a_process_that_hangs_leaves_nothing_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_SILENT_S", 0.2)

    def stops(app: int) -> bool:
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    async with running(EMPTY) as (run, _):
        await run.go(stops)
        assert run.has_all
        assert not run.spared


@pytest.mark.usefixtures("only_beside")
@pytest.mark.parametrize("broken", [answer(status="503 Slow down"), answer(b"{"), closes])
async def test_a_failure_is_this_processes_matter(broken: Behaviour) -> None:
    """With its answer as the first of the attempts, where there is one. The rest is read here, too."""
    async with running(*[EMPTY] * 20, broken, EMPTY) as (run, server):
        try:
            await run.go()
        finally:
            told = asked(server)
        assert len(run.here) + len(run.spared) == MANY
        assert sum(told.values()) <= MANY + 8


@pytest.mark.usefixtures("only_beside")
async def test_a_read_that_fails_here_is_one_of_many_that_were_answered() -> None:
    async with running(*[EMPTY] * (MANY - 1), answer(status="503 Slow down")) as (run, _):
        await run.go()
        assert len(run.spared) == MANY - 1
        assert len(run.incomplete) == 1


async def test_the_second_process_ends_with_its_first_failure() -> None:
    async with running(*[EMPTY] * 20, answer(status="503 Slow down"), EMPTY) as (run, server):
        queue = Queue(ALL)
        reading, telling = os.pipe()
        second = SecondProcess(run.client, queue, lambda read, seen: True, telling)
        await second.run(1)
        await second._client._transport.aclose()
        assert len(server.requests) == 21
        assert list(queue.take()) == list(range(21, MANY))
        queue.close()
        os.close(reading)
        os.close(telling)


@pytest.mark.usefixtures("only_beside")
async def test_connections_that_were_open_before_stay_with_this_process() -> None:
    async with running(EMPTY) as (run, server):
        await run.client.read(read_of(0))
        assert server.connections == 1
        await run.go()
        assert len(run.spared) == MANY
        await run.client.read(read_of(0))
        assert server.connections <= 1 + 4


@pytest.mark.usefixtures("only_beside")
async def test_a_refused_token_ends_the_run() -> None:
    async with running(*[EMPTY] * 20, answer(status="401 No")) as (run, server):
        with pytest.raises(Unauthorized):
            await run.go()
        assert len(server.requests) < MANY


@pytest.mark.usefixtures("only_beside")
async def test_it_does_not_outlive_a_run_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def noted(work: Callable[[], None]) -> int:
        made.append(forked(work))
        return made[-1]

    monkeypatch.setattr(beside, "forked", noted)

    async def never(stream: ByteStream) -> None:
        await anyio.sleep_forever()

    async with running(never) as (run, server), anyio.create_task_group() as group:
        group.start_soon(run.go)
        while not server.requests:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(made[0], 0)


# --- which reads ---


def shared(client: Client, *reads: Read) -> list[Read]:
    services = Services({"platform": client})
    lines = [line_of(services, read.service, "GET", read.path) for read in reads]
    return list(beside.may_be_shared(services, reads, lines))


@pytest.mark.parametrize("rate_limit", [None, 1.0])
async def test_reads_that_may_all_go_at_once_are_shared(rate_limit: float | None) -> None:
    async with running(EMPTY, rate_limit=rate_limit) as (run, _):
        assert shared(run.client, *ALL) == ALL


async def test_what_stands_in_line_for_a_limit_is_not_shared() -> None:
    second = Read("/v1/apps/app7/volumes?page=2", many(Volume))
    async with running(EMPTY, rate_limit=1.0) as (run, _):
        await run.client.read(read_of(5))
        left = [read for app, read in enumerate(ALL) if app not in (5, 7)]
        assert shared(run.client, *ALL, second) == left


@pytest.mark.usefixtures("only_beside")
@pytest.mark.parametrize("is_unchanged", [True, False])
async def test_a_shared_read_counts_for_the_limit_of_its_line(*, is_unchanged: bool) -> None:
    async with running(EMPTY, rate_limit=1.0) as (run, server):
        await run.go(lambda app: is_unchanged)
        began_s = run.client._clock.monotonic()
        for _ in range(BURST):
            await run.client.read(read_of(5))
        assert run.client._clock.monotonic() - began_s >= 1.0
        assert asked(server)["/v1/apps/app5/volumes"] == 1 + BURST


def test_reads_of_a_transport_without_connections_are_not_shared() -> None:
    client, _ = platform()
    assert shared(client, *ALL) == []


MAY_FORK = """
import os, threading, anyio
from anyio import to_thread
from reconciler.services.beside import _may_fork as may

async def main():
    await to_thread.run_sync(lambda: None)
    print("idle", may())
    here = threading.Barrier(2)
    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, here.wait)
        while not here.n_waiting:
            await anyio.lowlevel.checkpoint()
        print("at work", may())
        here.wait()
    other = threading.Thread(target=here.wait)
    other.start()
    print("another thread", may())
    here.wait()
    other.join()
    print("alone again", may())
    print("from a thread", await to_thread.run_sync(may))
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    print("one core", may())

anyio.run(main)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one core there is never a second process")
def test_no_process_is_forked_while_a_thread_is_at_work() -> None:
    ran = subprocess.run([sys.executable, "-c", MAY_FORK], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "idle True",
        "at work False",
        "another thread False",
        "alone again True",
        "from a thread False",
        "one core False",
    ]
