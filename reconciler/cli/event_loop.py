"""Runs what is asynchronous of a verb: a signal cancels it, or lets calls under way end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import anyio
import click

from reconciler.cli.signals import look, noted

T = TypeVar("T")


class Stoppable(Protocol):
    """An executor."""

    def stop(self) -> None:
        """Start no new calls."""


class Watch:
    """The executor that has to know of a signal."""

    def __init__(self) -> None:
        self._executor: Stoppable | None = None

    def follow(self, executor: Stoppable) -> None:
        self._executor = executor

    def act(self, scope: anyio.CancelScope) -> None:
        if self._executor is None:
            scope.cancel()
        else:
            click.echo("interrupted: calls under way may end, no new ones start", err=True)
            self._executor.stop()


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What `main` returns. Raises Interrupted if a signal came meanwhile; `main` is then cancelled."""
    result = run_watched(lambda _: main())
    look()
    return result


def run_watched(main: Callable[[Watch], Awaitable[T]]) -> T:
    """What `main` returns. Raises Interrupted if a signal cut it off before anything was under way."""
    watch = Watch()
    results: list[T] = []  # asyncio makes text of what its task returns: of a whole plan, when it ends

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        with anyio.CancelScope() as scope, noted(lambda: loop.call_soon_threadsafe(watch.act, scope)):
            look()
            results.append(await main(watch))
            return
        look()

    anyio.run(watched)
    return results[0]
