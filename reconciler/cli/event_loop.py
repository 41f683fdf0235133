"""Runs the asynchronous part of a verb. A signal cancels it, or lets running calls end."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from threading import Timer
from typing import TYPE_CHECKING, TypeVar

import anyio
import click

from reconciler.cli.signals import forget, look, noted, signalled

if TYPE_CHECKING:
    from reconciler.execution.executor import Executor

T = TypeVar("T")

END_S = 14.0  # more than calls under way get (`execution.executor.GRACE_S`)


class Watch:
    """Passes a signal on: to the executor, once there is one; before that, it cancels the work."""

    def __init__(self) -> None:
        self._executor: Executor | None = None

    def follow(self, executor: "Executor | None") -> None:
        """A signal stops `executor` from now on: running calls end, no new ones start. None: it has ended."""
        self._executor = executor

    def act(self, scope: anyio.CancelScope) -> None:
        """Handle a signal: stop the executor, or cancel `scope` where there is none yet."""
        if self._executor is None:
            scope.cancel()
        else:
            click.echo("interrupted: calls under way may end, no new ones start", err=True)
            self._executor.stop()


def run(main: Callable[[], Awaitable[T]]) -> T:
    """The result of `main`. Raises Interrupted after a signal, which cancels `main`."""
    result = run_watched(lambda _: main())
    look()
    return result


def run_watched(main: Callable[[Watch], Awaitable[T]]) -> T:
    """The result of `main`. Raises Interrupted if a signal came before `main` followed an executor."""
    watch = Watch()
    results: list[T] = []  # not returned by the task: asyncio would format it as text, even a whole plan

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope, noted(lambda: loop.call_soon_threadsafe(watch.act, scope)):
            look()
            results.append(await main(watch))
            return
        look()

    anyio.run(watched)
    return results[0]


def serve(main: Callable[[anyio.Event], Awaitable[T]]) -> T:
    """Run `main`, which ends once its event is set: by the first signal. Its result does not show that.

    What has not ended `END_S` later, as a wait for a state that is away, is cut off as by a kill.
    """
    late = Timer(END_S, os._exit, (0,))
    late.daemon = True

    async def watched() -> T:
        loop, stopped = asyncio.get_running_loop(), anyio.Event()

        def stop() -> None:
            if not stopped.is_set():
                stopped.set()
                late.start()

        with noted(lambda: loop.call_soon_threadsafe(stop)):
            if signalled(0):
                stop()
            return await main(stopped)

    result = anyio.run(watched)
    late.cancel()
    forget()
    return result
