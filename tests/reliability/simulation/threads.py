"""Threads on simulated time: one runs only while the loop stands still, from one pause to its next.

So what several of them do to one store comes in an order that the seed alone gives, whichever of them the
machine would have served first.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from reconciler.rehearsal.twin import TICK_S

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

LONG_S = 3600.0
_acting: ContextVar["Process"] = ContextVar("acting")  # whose task runs
_here = threading.local()


class Died(BaseException):
    """The process is gone. No handler of it may still do anything."""


@contextmanager
def acting(process: "Process") -> Iterator[None]:
    """All threads that begin in this block are those of `process`."""
    token = _acting.set(process)
    try:
        yield
    finally:
        _acting.reset(token)


def pause(seconds: float, until: asyncio.Event | None = None) -> None:
    """In a thread: let simulated time pass, at most until something happens."""
    _here.worker.pause(seconds, until)


class _Worker:
    """A thread and where it stands."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._turn, self._back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._back.acquire()
        self._begun = self._killed = False
        self.ended = False
        self.pause_s = 0.0
        self.until: asyncio.Event | None = None
        self.result: Any = None
        self.failure: BaseException | None = None

    def step(self) -> None:
        """Let it go on to its next pause, or to its end."""
        if self._begun:
            self._turn.release()
        else:
            self._begun = True
            threading.Thread(target=self._run, daemon=True).start()
        self._back.acquire()

    def kill(self) -> None:
        self._killed = True
        while not self.ended:
            self.step()

    def pause(self, seconds: float, until: asyncio.Event | None) -> None:
        if self._killed:
            raise Died
        self.pause_s, self.until = seconds, until
        self._back.release()
        self._turn.acquire()
        if self._killed:
            raise Died

    def _run(self) -> None:
        _here.worker = self
        try:
            self.result = self._work()
        except BaseException as failure:
            self.failure = failure
        self.ended = True
        self._back.release()


async def _drive(work: Callable[[], Any]) -> Any:
    """What comes of `work`, in a thread of the process that acts."""
    process, worker = _acting.get(), _Worker(work)
    try:
        worker.step()
        while not worker.ended:
            await _pass(worker)
            await process.wake_thread()
            if not process.alive:
                raise Died
            worker.step()
    except BaseException:
        worker.kill()  # its process died
        raise
    if worker.failure is not None:
        raise worker.failure
    return worker.result


async def _pass(worker: _Worker) -> None:
    if worker.until is None:
        await asyncio.sleep(max(worker.pause_s, TICK_S))
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(worker.until.wait(), worker.pause_s)


class ToThread:
    """Stands for `anyio.to_thread`."""

    @staticmethod
    async def run_sync(work: Callable[..., Any], *arguments: Any) -> Any:
        process = _acting.get()
        result = await _drive(partial(work, *arguments))
        await process.wake()
        return result


class Lock:
    """Stands for `threading.Lock` and `RLock`."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._freed = asyncio.Event()

    def __enter__(self) -> None:
        me = getattr(_here, "worker", None) or threading.main_thread()
        while self._owner not in (None, me):
            self._freed.clear()
            pause(LONG_S, self._freed)
        self._owner = me
        self._depth += 1

    def __exit__(self, *failure: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._freed.set()


class Executor:
    """Stands for `ThreadPoolExecutor`: one after another, which is an order that threads may take, too."""

    def __init__(self, workers: int) -> None:
        pass

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], values: Sequence[Any]) -> Iterable[Any]:
        return [work(value) for value in values]

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as failure:
            done.set_exception(failure)
        return done


class _Event:
    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> bool:
        if not self._event.is_set():
            pause(seconds, self._event)
        return self._event.is_set()


class _Thread:
    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target = target
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def join(self) -> None:
        while not self._ended.is_set():
            pause(LONG_S, self._ended)

    async def _run(self) -> None:
        with suppress(Died):
            await _drive(self._target)
        self._ended.set()


class Threading:
    """Stands for `threading`, where a lease is renewed."""

    Event = _Event
    Thread = _Thread


class Asyncio:
    """Stands for `asyncio` there: the loop of a process answers only while the process is not stopped."""

    @staticmethod
    def get_running_loop() -> "Asyncio":
        return Asyncio(_acting.get(), asyncio.get_running_loop())

    def __init__(self, process: "Process", loop: asyncio.AbstractEventLoop) -> None:
        self._process = process
        self._loop = loop

    def call_soon_threadsafe(self, answer: Callable[[], None]) -> None:
        self._loop.call_at(max(self._loop.time(), self._process.hangs_until_s), answer)
