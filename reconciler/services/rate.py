"""A rate limit per action, on an injected clock (aiolimiter knows only the event loop's)."""

from reconciler.core.clock import Clock


class RateLimit:
    """At most `burst` requests of one action at once and `per_second` in the long run.

    Each request takes the action's next free moment and sleeps until then, so they go out
    first come, first served, without a queue or a timer.
    """

    def __init__(self, per_second: float, clock: Clock, *, burst: int = 3) -> None:
        self._interval_s = 1 / per_second
        self._slack_s = (burst - 1) * self._interval_s
        self._clock = clock
        self._next: dict[str, float] = {}

    async def wait(self, action: str) -> None:
        """Return when a request of `action` may be sent."""
        now = self._clock.monotonic()
        mine = max(self._next.get(action, now), now)
        self._next[action] = mine + self._interval_s
        if mine - self._slack_s > now:
            await self._clock.sleep(mine - self._slack_s - now)
