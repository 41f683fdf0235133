"""When a service is plainly down: nothing but failures for a while, so that asking on tells nothing new."""

from reconciler.core.clock import Clock
from reconciler.core.errors import Down, PlatformError
from reconciler.services.retry import TOO_MANY

DOWN_AFTER_S = 10.0  # of failures alone: connections that fail, and answers 5xx
MANY_PATHS = 8
PROBE_S = 5.0  # then one request in so many seconds finds out whether it is back


class Breaker:
    """What the last requests of one service came to. `name`: as messages call it.

    `has_answered`: it did once, and not only that it fails or is asked too much.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._since_s: float | None = None
        self._failures = 0
        self._paths: set[str] = set()
        self._given_up: set[str] = set()
        self.has_answered = False
        self._what = ""
        self._tried_s = 0.0

    @property
    def is_open(self) -> bool:
        """Only where it never answered, or fails for many paths: one app may fail alone.

        A service that asks to wait (Retry-After) is waited for, until many reads have given that up.
        """
        if len(self._given_up) >= MANY_PATHS:
            return True
        for_all = not self.has_answered or len(self._paths) >= MANY_PATHS
        return for_all and self._failures > 1 and self.for_s >= DOWN_AFTER_S

    @property
    def for_s(self) -> float:
        """How long there have been nothing but failures."""
        return 0.0 if self._since_s is None else self._clock.monotonic() - self._since_s

    def enter(self, path: str) -> None:
        """A request is about to be sent. Raises Down while there is no use in it."""
        now_s = self._clock.monotonic()
        if self.is_open and now_s - self._tried_s < PROBE_S:
            raise Down(f"GET {path} was not sent: {self._outage}", outage=self._outage, path=path)
        self._tried_s = now_s

    def answered(self) -> None:
        self._since_s, self._failures, self.has_answered = None, 0, True
        self._paths.clear()
        self._given_up.clear()

    def failed(self, path: str, what: str, began_s: float, *, status: int = 0) -> None:
        """`what`: as in "the platform WHAT". `began_s`: when the request was sent."""
        if self._since_s is None:
            self._since_s = began_s
        if status != TOO_MANY:  # that is no failure, unless it goes on until the read gives up
            self._failures += 1
            self._paths.add(path)
        self._what = what

    def gave_up(self, path: str) -> None:
        """All attempts of one read failed, or it was asked to wait longer than it may."""
        self._given_up.add(path)

    def down(self, failure: PlatformError) -> Down:
        """`failure` as one of many."""
        return Down(
            failure.message,
            outage=self._outage,
            status=failure.status,
            path=failure.path,
            request_id=failure.request_id,
            help=failure.help,
        )

    @property
    def _outage(self) -> str:
        for_s = round(self.for_s)
        return f"{self._name} {self._what}" + (f" for {for_s} s" if for_s else "")
