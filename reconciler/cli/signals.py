"""INT and TERM: the first lets calls under way end, the second ends at once."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio
import click

from reconciler.cli.streams import OutputLost
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from reconciler.execution.executor import Executor

T = TypeVar("T")


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

    async def listen(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if self.number:
                    os._exit(128 + number)
                self.number = number
                if self._executor is None:
                    scope.cancel()
                else:
                    click.echo("interrupted: calls under way may end, no new ones start", err=True)
                    self._executor.stop()


def run_watched(main: Callable[[Watch], Awaitable[T]]) -> tuple[T, int]:
    """What `main` returns, and the signal that came meanwhile (0: none). Raises Interrupted if cut off."""
    return anyio.run(_run_watched, main)


async def _run_watched(main: Callable[[Watch], Awaitable[T]]) -> tuple[T, int]:
    watch = Watch()
    results: list[T] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(watch.listen, group.cancel_scope)
        try:
            results.append(await main(watch))
        except (ReconcilerError, click.Abort, OutputLost) as failure:
            failures.append(failure)  # raised below, where no group wraps it
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise Interrupted(watch.number)
    return results[0], watch.number


@contextmanager
def prompting() -> Iterator[None]:
    """While a person is asked, Ctrl-C means no: the event loop does not run and would not see it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
