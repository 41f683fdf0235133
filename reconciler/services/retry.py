"""One request with all its attempts: retried after 429, 5xx and failures of the network, within a budget.

For a GET, and for a message whose receiver knows it by an id. A mutation is sent once.

stamina knows neither an injected clock nor a budget over attempts whose pause the server names.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

from reconciler.core.clock import Clock
from reconciler.core.errors import PlatformError, TooLarge, TransportError
from reconciler.services.answers import http_date
from reconciler.services.transport import Answer

READ_BUDGET_S = 20.0  # for one request with all its attempts
ATTEMPT_S = 10.0  # for one attempt: a hung connection leaves time for a second one
FIRST_PAUSE_S = 0.5
LEAST_PAUSE_S = 0.1
TOO_MANY = 429


def fails(status: int) -> bool:
    """Whether an answer says that the service cannot answer now, and nothing of what was asked."""
    return status == TOO_MANY or status >= 500


async def answer_to_get(
    path: str,
    address: str,
    attempt: Callable[[float], Awaitable[Answer]],
    *,
    clock: Clock,
    jitter: Callable[[], float],
    is_useless: Callable[[], bool] = lambda: False,
) -> Answer:
    """As `answer_in_time`. Raises PlatformError, which names the service's `address`, where none came."""
    try:
        return await answer_in_time(attempt, clock=clock, jitter=jitter, is_useless=is_useless)
    except TooLarge as error:
        raise PlatformError(f"GET {path}: {error.message}", path=path) from None
    except TransportError as failure:
        raise PlatformError(
            f"GET {path} at {address} got no answer: {failure.message}", path=path
        ) from failure


async def answer_in_time(
    attempt: Callable[[float], Awaitable[Answer]],
    *,
    clock: Clock,
    jitter: Callable[[], float],
    is_useless: Callable[[], bool] = lambda: False,
) -> Answer:
    """The last answer within the budget. `attempt` sends once, within the seconds that it is given.

    Raises TransportError when there is none: what the last attempt failed by. `jitter` gives numbers from
    0 to 1. `is_useless`: whether to give up before the budget is spent.
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
    """The server's own time, or else ours."""
    return http_date(answer.headers.get("date", "")) or clock.now()


def retry_after(answer: Answer, clock: Clock) -> float | None:
    """The pause in seconds that the server asks for, as a number or as a moment; None: it asks for none."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    moment = http_date(text)
    return (moment - time_of(answer, clock)).total_seconds() if moment else None
