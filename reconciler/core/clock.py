"""Time as an argument: the real clock, and the seam that lets a whole apply run in simulated time."""

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """`now` is wall time (UTC), `monotonic` seconds for deadlines; `sleep` waits on the same time line."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
