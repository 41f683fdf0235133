"""INT, TERM and HUP: the first lets calls under way end, the second ends at once.

Where no event loop runs, the first raises Interrupted, and what it undoes on its way out is not disturbed.
"""

import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # `--help` needs no event loop
    import anyio

    from reconciler.execution.executor import Executor

T = TypeVar("T")

_ALARM_S = 0.5
_UNDO_S = 10.0  # how long a second signal is passed over after one was raised


class Interrupted(BaseException):
    """A signal came before anything was under way, or where all that was is undone."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def until_interrupted(work: Callable[[], int]) -> int:
    """The exit code that `work` returns, or that of the signal which it does not handle itself."""
    raised_at: float | None = None

    def leave(number: int, frame: object) -> None:
        nonlocal raised_at
        if raised_at is None:
            raised_at = time.monotonic()
            raise Interrupted(number)
        if time.monotonic() - raised_at > _UNDO_S:
            os._exit(128 + number)

    try:
        with _handled(leave):
            return work()
    except Interrupted as interrupted:
        click.echo("interrupted", err=True)
        return interrupted.code


@contextmanager
def _handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """HUP stays ignored where `nohup` has it so."""
    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    previous = {number: signal.signal(number, handler) for number in ending}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


class Watch:
    """Which signal came, and the executor that has to know."""

    def __init__(self) -> None:
        self.number = 0
        self._executor: Executor | None = None

    def follow(self, executor: "Executor") -> None:
        self._executor = executor

    def code(self, otherwise: int) -> int:
        """The exit code: a signal wins, also one that came when everything was over."""
        return 128 + self.number if self.number else otherwise

    @contextmanager
    def listening(self, scope: "anyio.CancelScope") -> Iterator[None]:
        """Signals are noted at once, and acted on by the event loop; a second one ends the process."""
        import asyncio

        loop = asyncio.get_running_loop()

        def note(number: int, frame: object) -> None:
            if self.number:
                os._exit(128 + number)
            self.number = number
            loop.call_soon_threadsafe(self._act, scope)

        with _handled(note):
            yield

    def _act(self, scope: "anyio.CancelScope") -> None:
        if self._executor is None:
            scope.cancel()
        else:
            click.echo("interrupted: calls under way may end, no new ones start", err=True)
            self._executor.stop()


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What `main` returns. Raises Interrupted if a signal came meanwhile; `main` is then cancelled."""
    watch = Watch()
    result = run_watched(lambda _: main(), watch)
    if watch.number:
        raise Interrupted(watch.number)
    return result


def run_watched(main: Callable[[Watch], Awaitable[T]], watch: Watch) -> T:
    """What `main` returns. Raises Interrupted if a signal cut it off before anything was under way."""
    import anyio

    results: list[T] = []  # asyncio makes text of what its task returns: of a whole plan, when it ends

    async def watched() -> None:
        with anyio.CancelScope() as scope, watch.listening(scope):
            results.append(await main(watch))
            return
        raise Interrupted(watch.number)

    anyio.run(watched)
    return results[0]


@contextmanager
def blocking() -> Iterator[None]:
    """While a person is asked, or files are read: signals end it at once.

    The event loop does not run, and would not see them. One that comes just before the answer is read
    does not interrupt the reading: the next alarm does. So it is where `input` passed over the exception,
    as it does while it flushes the streams.
    """
    came: list[int] = []

    def leave(number: int, frame: object) -> None:
        came.append(number)
        raise Interrupted(number)

    def again(number: int, frame: object) -> None:
        if came:
            raise Interrupted(came[0])

    before = signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, _ALARM_S, _ALARM_S)
    try:
        with _handled(leave):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
