"""A rate limit for each action, on an injected clock (aiolimiter knows only the event loop's)."""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from reconciler.core.clock import Clock, sleep_telling

DOCUMENTED_PER_SECOND = 1.0  # after an answer 429. Source: platform notes, "Errors, limits, headers"
BURST = 3  # requests of one action at once
_SLOW_S = 3600.0  # so long after an answer 429 the documented pace is kept: a controller runs for months
_GONE_S = 300.0  # a request that was not answered by then was not even sent, as in an outage

# Reports that requests of an action wait: the action, how many are left, of how many, and for how many
# seconds.
Waiting = Callable[[str, int, int, float], None]


def quiet(action: str, left: int, total: int, waited_s: float) -> None:
    """Reports nothing."""


class RateLimit:
    """At most `BURST` requests of one action at once and `per_second` in the long run (None: no limit).

    Each action has a queue. A request is counted when it is sent, not when it joins the queue. After an
    answer 429 the whole queue waits, and continues at no more than the documented pace. `waiting` gets the
    longest queue that waits, and then once that 0 requests are left. `waited_s`: of these waits.
    """

    def __init__(self, per_second: float | None, clock: Clock, *, waiting: Waiting = quiet) -> None:
        self.per_second = per_second
        self._interval_s = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._waiting = waiting
        self._queues: dict[str, _Queue] = {}
        self._reported: _Queue | None = None  # the queue that `waiting` got last
        self._since_s = 0.0
        self.waited_s = 0.0

    async def wait(
        self,
        action: str,
        *,
        first: bool = False,
        ready: Callable[[], Awaitable[None]] | None = None,
        tell: Callable[[float], None] = lambda left_s: None,
    ) -> None:
        """Return when a request of `action` may be sent.

        `ready`: another condition, such as a free slot. The first request in the queue waits for it, and the
        others wait behind it. `first`: join the queue at its front, for a request that was refused. `tell`:
        see `sleep_telling`.
        """
        if ready is None and not self._interval_s and action not in self._queues:
            return
        queue = self._queues.setdefault(action, _Queue(self._interval_s))
        async with queue.turn(first=first):
            try:
                while (pause_s := queue.next_s - self._clock.monotonic()) > 0:
                    self._report(action, queue)
                    await sleep_telling(self._clock, pause_s, tell)
                if ready is not None:
                    await ready()
                queue.take(self._clock.monotonic())
            finally:
                if self._reported is queue and queue.left == 1:
                    self._reported = None
                    self.waited_s += (waited_s := self._clock.monotonic() - self._since_s)
                    self._waiting(action, 0, queue.joined, waited_s)

    def _report(self, action: str, queue: "_Queue") -> None:
        """Report the queue if it is the longest one that waits."""
        now_s = self._clock.monotonic()
        if self._reported is None:
            self._since_s = now_s
        if self._reported is None or self._reported is queue or queue.left > self._reported.left:
            self._reported = queue
            self._waiting(action, queue.left, queue.joined, now_s - self._since_s)

    def answered(self, action: str) -> None:
        """Note that a request of `action` was answered, or that no answer will come."""
        if (queue := self._queues.get(action)) is not None:
            queue.answered(self._clock.monotonic())

    def refused(self, action: str, for_s: float) -> None:
        """Note a 429: no request of `action` is sent for `for_s` seconds."""
        queue = self._queues.setdefault(action, _Queue(self._interval_s))
        queue.hold(self._clock.monotonic() + for_s)


class _Queue:
    """The requests of one action. `next_s`: when the next one may be sent, on the monotonic clock.

    `joined`: how many have joined since the queue was last empty; `left` of them still wait.

    The service counts a request when it arrives, which may be as late as its answer. If the first request
    took longest, the next ones would be too early. So a request counts from its sending, and then from its
    answer.
    """

    def __init__(self, interval_s: float) -> None:
        self._usual = self._interval_s, self._slack_s = interval_s, (BURST - 1) * interval_s
        self._full_s = -math.inf  # from then on a whole burst may be sent at once
        self._held_s = -math.inf  # until then nothing may be sent
        self._waiting: deque[anyio.Event] = deque()
        self._taken = False
        self._under_way: deque[float] = deque()  # when each was sent
        self.joined = 0

    @property
    def left(self) -> int:
        return self._taken + len(self._waiting)

    @property
    def next_s(self) -> float:
        return max(self._full_s - self._slack_s, self._held_s)

    def take(self, now_s: float) -> None:
        """Count a request that is sent now."""
        if now_s > self._held_s + _SLOW_S:
            self._interval_s, self._slack_s = self._usual
        self._full_s = max(self._full_s, now_s) + self._interval_s
        self._under_way.append(now_s)

    def answered(self, now_s: float) -> None:
        """Count the answer of a request from now on."""
        while self._under_way and self._under_way[0] < now_s - _GONE_S:
            self._under_way.popleft()
        # Answers come in any order: an answer counts as that of the oldest request under way.
        if self._under_way:
            self._full_s = max(self._full_s, now_s + len(self._under_way) * self._interval_s)
            self._under_way.popleft()

    def hold(self, until_s: float) -> None:
        """Send nothing until `until_s`, then one request at a time at no more than the documented pace."""
        self._interval_s = max(self._interval_s, 1 / DOCUMENTED_PER_SECOND)
        self._slack_s = 0.0
        self._held_s = max(self._held_s, until_s)

    @asynccontextmanager
    async def turn(self, *, first: bool) -> AsyncIterator[None]:
        """Hold the front of the queue."""
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
        """Let the next request to the front of the queue."""
        self._taken = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.joined = 0
