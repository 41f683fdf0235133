"""INT and TERM: the first lets calls under way end, the second ends at once."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio
import click

if TYPE_CHECKING:
    from reconciler.execution.executor import Executor

T = TypeVar("T")

_ALARM_S = 0.5


class Interrupted(Exception):
    """A signal came before anything was under way."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


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
    def listening(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Signals are noted at once, and acted on by the event loop; a second one ends the process."""
        loop = asyncio.get_running_loop()

        def note(number: int, frame: object) -> None:
            if self.number:
                os._exit(128 + number)
            self.number = number
            loop.call_soon_threadsafe(self._act, scope)

        previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _act(self, scope: anyio.CancelScope) -> None:
        if self._executor is None:
            scope.cancel()
        else:
            click.echo("interrupted: calls under way may end, no new ones start", err=True)
            self._executor.stop()


def run_watched(main: Callable[[Watch], Awaitable[T]], watch: Watch) -> T:
    """What `main` returns. Raises Interrupted if a signal cut it off before anything was under way."""
    return anyio.run(_run_watched, main, watch)


async def _run_watched(main: Callable[[Watch], Awaitable[T]], watch: Watch) -> T:
    with anyio.CancelScope() as scope, watch.listening(scope):
        return await main(watch)
    raise Interrupted(watch.number)


@contextmanager
def prompting() -> Iterator[None]:
    """While a person is asked, signals end it at once: the event loop does not run and would not see them.

    One that comes just before the answer is read does not interrupt the reading: the next alarm does.
    """

    def leave(number: int, frame: object) -> None:
        raise Interrupted(number)

    previous = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, leave),
        signal.SIGALRM: signal.signal(signal.SIGALRM, lambda number, frame: None),
    }
    signal.setitimer(signal.ITIMER_REAL, _ALARM_S, _ALARM_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)
