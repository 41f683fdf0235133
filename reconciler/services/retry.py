"""Retries within a budget, and a breaker that ends them for a service that is plainly down.

Attempts are repeated after 429, 5xx and failures of the network: for a GET, and for a message that its
receiver knows by an id. A mutation is sent once. (stamina knows neither an injected clock nor a budget over
attempts whose pause the server names.)
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

from reconciler.core.clock import Clock
from reconciler.core.errors import Down, PlatformError, TooLarge, TransportError
from reconciler.services.outcome import http_date
from reconciler.services.transport import Answer

READ_BUDGET_S = 20.0  # for one request with all its attempts
ATTEMPT_S = 10.0  # for one attempt: after a hung connection there is time for a second one
FIRST_PAUSE_S = 0.5
LEAST_PAUSE_S = 0.1
TOO_MANY = 429

DOWN_AFTER_S = 10.0  # of failures alone: connections that fail, and answers 5xx
MANY_PATHS = 8
PROBE_S = 5.0  # seconds between requests that find out whether the service is back


def fails(status: int) -> bool:
    """Whether the answer only says that the service cannot answer now."""
    return status == TOO_MANY or status >= 500


async def answer_in_time(
    attempt: Callable[[float], Awaitable[Answer]],
    *,
    clock: Clock,
    jitter: Callable[[], float],
    is_useless: Callable[[], bool] = lambda: False,
) -> Answer:
    """The last answer within the budget. `attempt` sends once, and gets the seconds that it may take.

    Raises the TransportError of the last attempt if there is no answer. `jitter` gives numbers from 0 to 1.
    `is_useless`: whether to give up before the budget is spent.
    """
    give_up_at = clock.monotonic() + READ_BUDGET_S
    pause_s = FIRST_PAUSE_S
    while True:
        left_s = give_up_at - clock.monotonic()
        failure: TransportError | None = None
        wait_s = pause_s * (0.5 + jitter() / 2)
        try:
            answer = await attempt(min(ATTEMPT_S, left_s))
        except TooLarge:
            raise
        except TransportError as error:
            failure = error
        else:
            if not fails(answer.status):
                return answer
            asked_s = retry_after(answer, clock)
            wait_s = wait_s if asked_s is None else max(asked_s, LEAST_PAUSE_S)
        if is_useless() or clock.monotonic() + wait_s >= give_up_at:
            if failure is None:
                return answer
            raise failure
        await clock.sleep(wait_s)
        pause_s *= 2


def time_of(answer: Answer, clock: Clock) -> datetime:
    """The server's time, from its answer; our own time if the answer has none."""
    return http_date(answer.headers.get("date", "")) or clock.now()


def retry_after(answer: Answer, clock: Clock) -> float | None:
    """The pause in seconds that the server asks for, as a number or as a moment; None if it asks for none."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    moment = http_date(text)
    return (moment - time_of(answer, clock)).total_seconds() if moment else None


class Breaker:
    """The failures of one service since its last proper answer. `name`: as messages call it.

    GETs report failures and answers; mutations report answers only. `has_answered`: there was a proper
    answer, neither 5xx nor 429.
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
        """Whether the service is plainly down: it never answered, or it fails for many paths.

        Failures of a few paths do not count, because one app may fail alone. A service that asks to wait
        (Retry-After) is not down until many reads have given up.
        """
        if len(self._given_up) >= MANY_PATHS:
            return True
        for_all = not self.has_answered or len(self._paths) >= MANY_PATHS
        return for_all and self._failures > 1 and self.silent_s >= DOWN_AFTER_S

    @property
    def silent_s(self) -> float:
        """Seconds for which the service has only failed, or not answered at all."""
        return 0.0 if self._since_s is None else self._clock.monotonic() - self._since_s

    def enter(self, path: str) -> None:
        """Called before a request is sent. Raises Down while the breaker is open, except for one probe."""
        now_s = self._clock.monotonic()
        if self.is_open and now_s - self._tried_s < PROBE_S:
            raise Down(f"GET {path} was not sent: {self._outage}", outage=self._outage, path=path)
        self._tried_s = now_s

    def answered(self) -> None:
        """Note a proper answer."""
        self._since_s, self._failures, self.has_answered = None, 0, True
        self._paths.clear()
        self._given_up.clear()

    def failed(self, path: str, what: str, began_s: float, *, status: int = 0) -> None:
        """Note a failure. `what`: as in "the platform WHAT". `began_s`: when the request was sent."""
        if self._since_s is None:
            self._since_s = began_s
        if status != TOO_MANY:  # 429 is a failure only once the read gives up
            self._failures += 1
            self._paths.add(path)
        self._what = what

    def gave_up(self, path: str) -> None:
        """Note that all attempts of one read failed, or that it was asked to wait longer than it may."""
        self._given_up.add(path)

    def down(self, failure: PlatformError) -> Down:
        """`failure` as one of an outage."""
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
        for_s = round(self.silent_s)
        return f"{self._name} {self._what}" + (f" for {for_s} s" if for_s else "")
