"""A second process for part of a large plan's reads: answers cost CPU, and Python uses one core a process.

It is forked from this one, so it knows what is known here. Both take reads from one queue. It sends each read
once, and of an answer that leaves everything as it is, it tells only that it came. Others it hands over.
With the first request that fails it ends: what it took and did not tell of is read here.
"""

import os
import pickle
import signal
import struct
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextvars import Context
from time import monotonic

import anyio
from anyio import to_thread

from reconciler.core.errors import ReconcilerError
from reconciler.core.forking import forked
from reconciler.core.model import Observation
from reconciler.core.steps import PLATFORM, Read
from reconciler.services.budget import Line
from reconciler.services.client import Client
from reconciler.services.registry import Services
from reconciler.services.retry import ATTEMPT_S, fails
from reconciler.services.transport import Answer

_TELL_S = 1.0  # what it knows is told after this time at the latest,
_TELL_AT = 64  # or after so many answers
_SILENT_S = ATTEMPT_S + 5.0  # it hangs, or does not run

_PORTION = struct.Struct("=H")  # its number, in the queue
_QUEUE = 4_096 // _PORTION.size  # portions: what every pipe holds
_LENGTH = struct.Struct("=I")  # of what it tells next

_IDLE = "AnyIO worker thread"

Told = tuple[int, Answer | None]  # the number of a read; None: its answer leaves all as it is


def may_be_shared(services: Services, reads: Sequence[Read], lines: Sequence[Line]) -> Sequence[Read]:
    """Those of `reads` that a second process may send, too; none where there can be no such process.

    `lines`: where each read stands in line. Whatever may have to wait for a rate limit is not among them.
    """
    platform = services.clients.get(PLATFORM)
    if platform is None or not _may_fork():
        return ()
    alone = Counter(lines)
    free = [
        read
        for read, line in zip(reads, lines, strict=True)
        if read.service == PLATFORM
        and (platform.rate_limit is None or alone[line] == 1)
        and platform.is_untouched(read)
    ]
    return free if platform.anew() is not None else ()


def _may_fork() -> bool:
    """Not while another thread is at work, or somewhere where libraries do not stand it (macOS)."""
    me, others = threading.current_thread(), threading.enumerate()
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and me is threading.main_thread()
        and all(thread is me or thread.name == _IDLE for thread in others)
        and to_thread.current_default_thread_limiter().borrowed_tokens == 0
    )


class Beside:
    """Another process that answers part of `reads`, with at most `at_once` requests at a time.

    `is_unchanged`: whether an answer leaves everything as it is. It is called in that process only.
    """

    def __init__(
        self,
        client: Client,
        reads: Sequence[Read],
        is_unchanged: Callable[[Read, Observation], bool],
        *,
        at_once: int,
    ) -> None:
        self._queue = Queue(reads)
        self._results, telling = os.pipe()
        second = SecondProcess(client, self._queue, is_unchanged, telling)

        def work() -> None:
            os.close(self._results)
            Context().run(anyio.run, second.run, at_once)  # the loop of this process is none of its own

        self._process = forked(work)
        os.close(telling)

    def take(self) -> Iterator[Read]:
        """The reads that are left to this process, each when it is asked for."""
        return (self._queue.reads[number] for number in self._queue.take())

    async def told(self) -> AsyncIterator[tuple[Read, Answer | None]]:
        """What that process tells, until it ends or hangs. None: the answer leaves everything as it is."""
        received = b""
        while True:
            with anyio.move_on_after(_SILENT_S) as silent:
                await anyio.wait_readable(self._results)
            data = b"" if silent.cancelled_caught else os.read(self._results, 1 << 20)
            if not data:
                return
            received += data
            while (end := _end(received)) <= len(received):
                told: Sequence[Told] = pickle.loads(received[_LENGTH.size : end])  # noqa: S301 - our own process's
                received = received[end:]
                for number, answer in told:
                    yield self._queue.reads[number], answer

    def close(self) -> None:
        """End that process, whatever it does."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._queue.close()
        os.close(self._results)


def _end(received: bytes) -> int:
    return _LENGTH.size + _LENGTH.unpack_from(received)[0] if len(received) >= _LENGTH.size else _LENGTH.size


class Queue:
    """Numbers of `reads`, for several processes: the kernel gives each to one of them."""

    def __init__(self, reads: Sequence[Read]) -> None:
        self.reads = reads
        self._portion = -(-len(reads) // _QUEUE)
        self._pipe, filling = os.pipe()
        numbers = range(-(-len(reads) // self._portion))
        os.write(filling, b"".join(map(_PORTION.pack, numbers)))
        os.close(filling)

    def take(self) -> Iterator[int]:
        while taken := os.read(self._pipe, _PORTION.size):
            first = _PORTION.unpack(taken)[0] * self._portion
            yield from range(first, min(first + self._portion, len(self.reads)))

    def close(self) -> None:
        os.close(self._pipe)


class SecondProcess:
    """What that process does, and writes to the pipe `telling`."""

    def __init__(
        self,
        client: Client,
        queue: Queue,
        is_unchanged: Callable[[Read, Observation], bool],
        telling: int,
    ) -> None:
        self._inherited = client  # its connections are not ours, and must not be closed here
        made = client.anew()
        assert made is not None
        self._client = made
        self._queue = queue
        self._is_unchanged = is_unchanged
        self._pipe = telling
        self._known: list[Told] = []
        self._told_s = monotonic()
        self._has_failed = False

    async def run(self, at_once: int) -> None:
        numbers = self._queue.take()
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(self._work, numbers)
        self._tell()

    async def _work(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            try:
                answer = await self._client.ask(self._queue.reads[number], ATTEMPT_S)
            except ReconcilerError:
                self._has_failed = True
                return
            self._has_failed |= fails(answer.status)
            self._known.append((number, self._kept(self._queue.reads[number], answer)))
            if len(self._known) >= _TELL_AT or monotonic() - self._told_s > _TELL_S:
                self._tell()
            if self._has_failed:
                return

    def _kept(self, read: Read, answer: Answer) -> Answer | None:
        try:
            return None if self._is_unchanged(read, self._client.observed(read, answer)) else answer
        except ReconcilerError:
            return answer

    def _tell(self) -> None:
        data = pickle.dumps(self._known, pickle.HIGHEST_PROTOCOL)
        self._known, self._told_s = [], monotonic()
        data = _LENGTH.pack(len(data)) + data
        while data:
            data = data[os.write(self._pipe, data) :]
