"""A rate limit per action, on an injected clock (aiolimiter knows only the event loop's)."""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from reconciler.core.clock import Clock, sleep_telling

DOCUMENTED_PER_SECOND = 1.0  # once a service said 429. Source: platform notes, "Errors, limits, headers"


BURST = 3  # requests of one action at once

# Requests of an action wait: how many are left, of how many, and for how long something has waited.
Waiting = Callable[[str, int, int, float], None]


def quiet(action: str, left: int, total: int, waited_s: float) -> None:
    """Nobody looks."""


class RateLimit:
    """At most `burst` requests of one action at once and `per_second` in the long run (None: no limit).

    Requests of one action stand in line; a request is counted when it goes out, not when it joins the line.
    After an answer 429 the whole line of its action waits, and goes on at no more than the documented pace.
    `waiting` gets the longest line that waits, and 0 as what is left when it does so no longer.
    """

    def __init__(
        self, per_second: float | None, clock: Clock, *, burst: int = BURST, waiting: Waiting = quiet
    ) -> None:
        self._interval_s = 1 / per_second if per_second else 0.0
        self._burst = burst
        self._clock = clock
        self._waiting = waiting
        self._lines: dict[str, _Line] = {}
        self._told: _Line | None = None  # the line that `waiting` got last
        self._since_s = 0.0

    async def wait(
        self,
        action: str,
        *,
        first: bool = False,
        ready: Callable[[], Awaitable[None]] | None = None,
        tell: Callable[[float], None] = lambda left_s: None,
    ) -> None:
        """Return when a request of `action` may be sent.

        `ready`: what else must be there, such as a slot: who is next in line waits for it, and the others
        wait behind. `first`: before all others, for a request that was refused. `tell`: see `sleep_telling`.
        """
        if ready is None and not self._interval_s and action not in self._lines:
            return
        line = self._lines.setdefault(action, _Line(self._interval_s, self._burst))
        async with line.place(first=first):
            try:
                while (pause_s := line.next_s - self._clock.monotonic()) > 0:
                    self._say(action, line)
                    await sleep_telling(self._clock, pause_s, tell)
                if ready is not None:
                    await ready()
                line.take(self._clock.monotonic())
            finally:
                if self._told is line and line.left == 1:
                    self._told = None
                    self._waiting(action, 0, line.joined, self._clock.monotonic() - self._since_s)

    def _say(self, action: str, line: "_Line") -> None:
        now_s = self._clock.monotonic()
        if self._told is None:
            self._since_s = now_s
        if self._told is None or self._told is line or line.left > self._told.left:
            self._told = line
            self._waiting(action, line.left, line.joined, now_s - self._since_s)

    def answered(self, action: str) -> None:
        """A request of `action` that was let pass has been answered, or will not be."""
        if (line := self._lines.get(action)) is not None:
            line.answered(self._clock.monotonic())

    def refused(self, action: str, for_s: float) -> None:
        """The service refused a request of `action` as one too many: nothing of it is sent for `for_s`."""
        line = self._lines.setdefault(action, _Line(self._interval_s, self._burst))
        line.hold(self._clock.monotonic() + for_s)


class _Line:
    """The requests of one action. `next_s`: when the next one may go out, on the monotonic clock.

    `joined`: how many have stood in line since nobody did; `left` of them still do.

    The service counts a request when it arrives, which may be as late as its answer: if the first one took
    longest, the next ones would be early. Each counts from its sending, then from its answer.
    """

    def __init__(self, interval_s: float, burst: int) -> None:
        self._interval_s = interval_s
        self._slack_s = (burst - 1) * interval_s
        self._full_s = -math.inf  # by then as many may go out at once as the limit allows
        self._held_s = -math.inf
        self._waiting: deque[anyio.Event] = deque()
        self._taken = False
        self._under_way = 0
        self.joined = 0

    @property
    def left(self) -> int:
        return self._taken + len(self._waiting)

    @property
    def next_s(self) -> float:
        return max(self._full_s - self._slack_s, self._held_s)

    def take(self, now_s: float) -> None:
        self._full_s = max(self._full_s, now_s) + self._interval_s
        self._under_way += 1

    def answered(self, now_s: float) -> None:
        # Answers come in any order; each counts as that of the oldest request under way.
        if self._under_way:
            self._full_s = max(self._full_s, now_s + self._under_way * self._interval_s)
            self._under_way -= 1

    def hold(self, until_s: float) -> None:
        self._interval_s = max(self._interval_s, 1 / DOCUMENTED_PER_SECOND)
        self._slack_s = 0.0
        self._held_s = max(self._held_s, until_s)

    @asynccontextmanager
    async def place(self, *, first: bool) -> AsyncIterator[None]:
        """As long as it is held, nobody else is next in line."""
        self.joined += 1
        if self._taken:
            mine = anyio.Event()
            (self._waiting.appendleft if first else self._waiting.append)(mine)
            try:
                await mine.wait()
            except BaseException:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                else:
                    self._next_one()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._next_one()

    def _next_one(self) -> None:
        self._taken = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.joined = 0
