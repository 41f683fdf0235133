"""Time as an argument: the real clock, and the protocol that lets a whole apply run in simulated time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import anyio

from reconciler.core.reporter import TELL_EVERY_S


class Clock(Protocol):
    """`now` is wall time (UTC), `monotonic` seconds for deadlines; `sleep` waits on the same time line."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


# The time in which a machine is suspended counts, because other machines take over its leases meanwhile.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The real clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def sleep_telling(clock: Clock, seconds: float, tell: Callable[[float], None]) -> None:
    """Sleep for `seconds`; every `TELL_EVERY_S`, call `tell` with the seconds left."""
    while seconds > TELL_EVERY_S:
        await clock.sleep(TELL_EVERY_S)
        seconds -= TELL_EVERY_S
        tell(seconds)
    await clock.sleep(seconds)
