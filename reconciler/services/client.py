"""Reading and changing the platform: GETs that are retried, and mutations that never are."""

import json
import random
from collections.abc import Callable, Collection
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from reconciler.core.clock import Clock
from reconciler.core.errors import (
    AppMissing,
    NotFound,
    NotYet,
    PlatformError,
    ReconcilerError,
    Refused,
    TransportError,
    Unauthorized,
    Unreadable,
)
from reconciler.core.model import Observation
from reconciler.core.steps import Call, Read, Template
from reconciler.services.answers import cleaned, error_text, first_difference, is_html, parsed, request_id
from reconciler.services.machines import paths
from reconciler.services.outcome import Outcome, classify, unanswered
from reconciler.services.rate import RateLimit
from reconciler.services.redaction import harmless, without_token, without_values
from reconciler.services.refusals import Refusal, recognise
from reconciler.services.retry import answer_to_get, time_of
from reconciler.services.shapes import read_shape
from reconciler.services.trace import trace
from reconciler.services.transport import Answer, GetOnly, Transport, is_loopback


class Platform:
    """The /v1 API of one platform.

    `token` is asked at each request and never kept elsewhere. `rate_limit`: requests per second
    and action (see `paths.action`); None, or a loopback `base_url`: unlimited. `read_only`:
    everything but GET raises Refused. `jitter` gives numbers from 0 to 1.
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
        self._transport = GetOnly(transport) if read_only else transport
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._clock = clock
        self._rate = RateLimit(rate_limit, clock) if rate_limit and not is_loopback(base_url) else None
        self._user_agent = user_agent
        self._read_only = read_only
        self._jitter = jitter

    async def read(self, read: Read) -> Observation:
        """The complete answer to one GET, as wire models of its shape; `at` is the platform's time.

        `read.path` is plain text.
        Raises NotFound, AppMissing, Unauthorized, NotYet, Unreadable, or PlatformError when the platform
        did not answer properly within `retrying.READ_BUDGET_S`.
        """
        path = plain(read.path)
        paths.check("GET", path)
        answer = await self._get(path)
        if answer.status != 200:
            raise _read_error(path, answer, sensitive=read.sensitive)
        body = to_json(harmless(parsed(answer.body))) if read.sensitive else answer.body
        try:
            objects = read_shape(read.shape, body)
        except ValidationError as error:
            # `from None`: the validation error quotes the answer.
            raise _unreadable(path, answer, error) from None
        return Observation(objects, complete=True, at=time_of(answer, self._clock))

    async def turn(self, call: Call) -> None:
        """Wait until the platform's rate limit lets this mutation pass; `send` then goes out at once.

        Apart from `send`, so that an intent is recorded when its call is due, not when it queues.
        """
        if self._rate:
            await self._rate.wait(paths.action(call.method, plain(call.path)))

    async def send(
        self,
        call: Call,
        *,
        id_path: str | None,
        accepts: Collection[str] = (),
        deadline_s: float = 30.0,
    ) -> Outcome:
        """Make one attempt, never a second, and return what it means (see `outcome.classify`).

        `call` is filled in: its path is plain text, its body JSON with the values of secrets.
        Raises Refused, before anything is sent, for a path that is not safe and in read-only mode.
        """
        method, path, body = call.method, plain(call.path), call.body
        if self._read_only and method != "GET":
            raise Refused(f"this command only reads: {method} {path} is not sent")
        paths.check(method, path)
        content = None if body is None else json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        try:
            answer = await self._request(method, path, content, deadline_s)
        except TransportError as error:
            return unanswered(error)
        outcome = classify(answer, id_path=id_path, accepts=accepts)
        if call.sensitive:
            return without_values(outcome, body)
        return outcome

    async def _get(self, path: str) -> Answer:
        """The last answer within the budget (see `retrying`)."""
        if self._rate:
            await self._rate.wait(paths.action("GET", path))
        return await answer_to_get(
            path,
            lambda deadline_s: self._request("GET", path, None, deadline_s),
            clock=self._clock,
            jitter=self._jitter,
        )

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
            trace(method, path, status, self._clock.monotonic() - started)

    def _checked_token(self) -> str:
        token = self._token()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ReconcilerError(
                "the platform's token is empty, or holds characters that no header may carry",
                help="check where `platform.token_from` or RECONCILE_TOKEN gets it",
            )
        return token


def plain(path: str | Template) -> str:
    assert isinstance(path, str)
    return path


def _read_error(path: str, answer: Answer, *, sensitive: bool) -> PlatformError:
    code, text = error_text(answer, parsed(answer.body))
    details: dict[str, Any] = {"status": answer.status, "path": path, "request_id": request_id(answer)}
    message = f"GET {path} was answered {answer.status}"
    refusal = recognise(answer.status, code, text)
    if sensitive:
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
    problem = "an HTML page" if is_html(answer) else first_difference(error)
    return Unreadable(
        f"the answer to GET {path} is not what the API document promises ({problem})",
        status=answer.status,
        path=path,
        request_id=request_id(answer),
        help="check `platform.base_url`, and whether a proxy stands in between",
    )
