"""Reading and changing the platform: GETs that are retried, and mutations that never are."""

import json
import logging
import random
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from reconciler.clock import Clock
from reconciler.errors import (
    AppMissing,
    NotFound,
    NotYet,
    PlatformError,
    ReconcilerError,
    Refused,
    TooLarge,
    TransportError,
    Unauthorized,
    Unreadable,
)
from reconciler.model import Observation
from reconciler.platform import paths
from reconciler.platform.answers import (
    cleaned,
    error_text,
    http_date,
    is_html,
    parsed,
    request_id,
)
from reconciler.platform.outcome import Outcome, classify, unanswered
from reconciler.platform.rate import RateLimit
from reconciler.platform.refusals import Refusal, recognise
from reconciler.platform.secrecy import harmless, without_token, without_values
from reconciler.transport import Answer, Transport, is_loopback
from reconciler.wire.shapes import read_shape

READ_BUDGET_S = 20.0  # for one GET with all its attempts
ATTEMPT_S = 10.0  # for one attempt: a hung connection leaves time for a second one
FIRST_PAUSE_S = 0.5
LEAST_PAUSE_S = 0.1

# The stdlib's level check costs 0.1 µs; structlog itself is imported when someone listens.
_listener = logging.getLogger("reconciler.http")


class Platform:
    """The /v1 API of one platform.

    `token` is asked at each request and never kept elsewhere. `rate_limit`: requests per second
    and action (see `paths.action`); None, or a loopback `base_url`: unlimited. `read_only`:
    everything but GET raises Refused. `jitter` gives numbers from 0 to 1.

    stamina and aiolimiter know neither an injected clock nor, in stamina's case, a budget over
    attempts whose pause the server names; both jobs are a few lines here and in `rate`.
    """

    def __init__(
        self,
        transport: Transport,
        base_url: str,
        token: Callable[[], str],
        clock: Clock,
        *,
        rate_limit: float | None = 1.0,
        user_agent: str = "reconciler",
        read_only: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._clock = clock
        self._rate = RateLimit(rate_limit, clock) if rate_limit and not is_loopback(base_url) else None
        self._user_agent = user_agent
        self._read_only = read_only
        self._jitter = jitter

    async def read(self, path: str, shape: str) -> Observation:
        """The complete answer to one GET, as wire models of `shape`; `at` is the platform's time.

        Raises NotFound, AppMissing, Unauthorized, NotYet, Unreadable, or PlatformError when the platform
        did not answer properly within `READ_BUDGET_S`.
        """
        paths.check("GET", path)
        answer = await self._get(path)
        if answer.status != 200:
            raise _read_error(path, answer)
        body = to_json(harmless(parsed(answer.body))) if paths.is_secret(path) else answer.body
        try:
            objects = read_shape(shape, body)
        except ValidationError as error:
            # `from None`: the validation error quotes the answer.
            raise _unreadable(path, answer, error) from None
        return Observation(objects, complete=True, at=self._time_of(answer))

    async def turn(self, method: str, path: str) -> None:
        """Wait until the platform's rate limit lets this mutation pass; `send` then goes out at once.

        Apart from `send`, so that an intent is recorded when its call is due, not when it queues.
        """
        if self._rate:
            await self._rate.wait(paths.action(method, path))

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        id_path: str | None,
        accepts: Collection[str] = (),
        deadline_s: float = 30.0,
    ) -> Outcome:
        """Make one attempt, never a second, and return what it means (see `outcome.classify`).

        Raises Refused, before anything is sent, for a path that is not safe and in read-only mode.
        """
        if self._read_only and method != "GET":
            raise Refused(f"this command only reads: {method} {path} is not sent")
        paths.check(method, path)
        content = None if body is None else json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        try:
            answer = await self._request(method, path, content, deadline_s)
        except TransportError as error:
            return unanswered(error)
        outcome = classify(answer, id_path=id_path, accepts=accepts)
        if paths.is_secret(path):
            return without_values(outcome, value_sent=content is not None)
        return outcome

    async def _get(self, path: str) -> Answer:
        """The last answer within the budget: retried after 429, 5xx and failures of the network."""
        if self._rate:
            await self._rate.wait(paths.action("GET", path))
        give_up_at = self._clock.monotonic() + READ_BUDGET_S
        pause_s = FIRST_PAUSE_S
        while True:
            left_s = give_up_at - self._clock.monotonic()
            failure: TransportError | None = None
            wait_s = pause_s * (0.5 + self._jitter() / 2)
            try:
                answer = await self._request("GET", path, None, min(ATTEMPT_S, left_s))
            except TooLarge as error:
                raise PlatformError(f"GET {path}: {error.message}", path=path) from None
            except TransportError as error:
                failure = error
            else:
                if answer.status != 429 and answer.status < 500:
                    return answer
                asked_s = self._retry_after(answer)
                wait_s = wait_s if asked_s is None else max(asked_s, LEAST_PAUSE_S)
            if self._clock.monotonic() + wait_s >= give_up_at:
                if failure is None:
                    return answer
                raise PlatformError(f"GET {path} got no answer: {failure.message}", path=path) from failure
            await self._clock.sleep(wait_s)
            pause_s *= 2

    async def _request(self, method: str, path: str, content: bytes | None, deadline_s: float) -> Answer:
        token = self._checked_token()
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json",
            "user-agent": self._user_agent,
        }
        if content is not None:
            headers["content-type"] = "application/json"
        started = self._clock.monotonic()
        status = 0
        try:
            answer = await self._transport.request(
                method, self._base_url + path, headers=headers, body=content, deadline_s=deadline_s
            )
            status = answer.status
            return without_token(answer, token) if status >= 400 else answer
        finally:
            if _listener.isEnabledFor(logging.DEBUG):
                _log_request(method, path, status, self._clock.monotonic() - started)

    def _checked_token(self) -> str:
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ReconcilerError(
                "the platform's token is empty, or holds characters that no header may carry",
                help="check where `platform.token_from` or RECONCILE_TOKEN gets it",
            )
        return token

    def _time_of(self, answer: Answer) -> datetime:
        return http_date(answer.headers.get("date", "")) or self._clock.now()

    def _retry_after(self, answer: Answer) -> float | None:
        """The pause in seconds that the platform asks for, as a number or as a moment."""
        text = answer.headers.get("retry-after", "").strip()
        if text.isdecimal():
            return float(text)
        moment = http_date(text)
        return (moment - self._time_of(answer)).total_seconds() if moment else None


def _read_error(path: str, answer: Answer) -> PlatformError:
    code, text = error_text(answer, parsed(answer.body))
    details: dict[str, Any] = {"status": answer.status, "path": path, "request_id": request_id(answer)}
    message = f"GET {path} was answered {answer.status}"
    refusal = recognise(answer.status, code, text)
    if paths.is_secret(path):
        word = f"{refusal}; " if refusal else ""
        message += f" ({word}the platform's words are not shown: they may repeat a value)"
    elif text or code:
        message += f": {text or code}"
    if answer.status in (401, 403):
        return Unauthorized(message, help="check that the token may access this app or cluster", **details)
    if answer.status in (404, 410) and not is_html(answer):
        missing = refusal is Refusal.APP_MISSING
        return (AppMissing if missing else NotFound)(message, **details)
    if refusal is Refusal.STATE_NOT_REACHED:
        return NotYet(text, **details)
    if answer.status < 400:  # no redirect is followed; 204 and 206 hold no complete answer
        return Unreadable(message, help="check `platform.base_url`", **details)
    if answer.status == 429 and "retry-after" in answer.headers:
        help = f"the platform asks to wait: retry-after {cleaned(answer.headers['retry-after'])}"
        return PlatformError(message, help=help, **details)
    return PlatformError(message, **details)


def _unreadable(path: str, answer: Answer, error: ValidationError) -> Unreadable:
    """Where the answer differs from the API document, without quoting it."""
    if is_html(answer):
        problem = "an HTML page"
    else:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        problem = f"`{cleaned(place)}`: {first['type']}" if place else first["type"]
    return Unreadable(
        f"the answer to GET {path} is not what the API document promises ({problem})",
        status=answer.status,
        path=path,
        request_id=request_id(answer),
        help="check `platform.base_url`, and whether a proxy stands in between",
    )


def _log_request(method: str, path: str, status: int, elapsed_s: float) -> None:
    import structlog

    log = structlog.get_logger("reconciler.http")
    log.debug("http.request", method=method, path=path, status=status, elapsed_ms=round(elapsed_s * 1000))
