"""Requests to a git host. They wait for its rate limits, and repeat only what has no effect twice."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from reconciler.core.clock import Clock
from reconciler.core.errors import Lost, NotSent, ReconcilerError
from reconciler.services.outcome import error_text, parsed
from reconciler.services.retry import TOO_MANY, retry_after, time_of
from reconciler.services.service import without_credential
from reconciler.services.transport import Answer, Transport

ATTEMPT_S = 30.0
ATTEMPTS = 4
FIRST_PAUSE_S = 1.0
MOST_WAIT_S = 300.0  # for all rate limits of one run: a job of CI costs money while it waits
_UNNAMED_LIMIT_S = 60.0  # GitHub asks for at least a minute where an answer names no time

Method = Literal["GET", "POST", "PATCH", "PUT"]


class HostRefused(ReconcilerError):
    """The host answered, but not with a success. `status`: of the answer."""

    def __init__(self, message: str, status: int, *, help: str = "") -> None:
        super().__init__(message, help=help)
        self.status = status


class Unknown(ReconcilerError):
    """The outcome of a request that must not be repeated is unknown."""


class Requests:
    """A client of one host's API. `headers`: with the token. `token`: removed from the host's messages."""

    def __init__(
        self,
        transport: Transport,
        api: str,
        headers: Mapping[str, str],
        *,
        token: str,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        self._transport, self._api, self._headers = transport, api.rstrip("/"), headers
        self._token, self.clock, self._tell = token, clock, tell
        self._waited_s = 0.0

    async def send(self, method: Method, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """The answer, whatever its status. Failures of the host or the network are retried.

        For requests that have no effect twice: reads, and writes that replace something as a whole. Raises
        ReconcilerError.
        """
        return await self._tried(method, path, body, once=False)

    async def send_once(self, path: str, body: Mapping[str, Any]) -> Answer:
        """The answer to a POST. Retried only where nothing was sent.

        Raises Unknown after a lost answer or one that leaves the outcome open (5xx), else ReconcilerError.
        """
        return await self._tried("POST", path, body, once=True)

    def said(self, answer: Answer) -> str:
        """The host's own error text in an answer; "" where it has none."""
        return error_text(answer, parsed(answer.body))[1]

    async def _tried(
        self, method: Method, path: str, body: Mapping[str, Any] | None, *, once: bool
    ) -> Answer:
        """The answer after up to ATTEMPTS attempts, with pauses that double. `once`: see `send_once`."""
        pause_s = FIRST_PAUSE_S
        for left in reversed(range(ATTEMPTS)):
            try:
                answer = await self._admitted(method, path, body)
            except (Lost, NotSent) as failure:
                if once and isinstance(failure, Lost):
                    raise Unknown(failure.message) from None
                if not left:
                    raise ReconcilerError(f"the git host gave no answer: {failure.message}") from None
            else:
                if once and answer.status >= 500:
                    raise Unknown(f"the git host answered {answer.status}")
                if answer.status < 500 or not left:
                    return answer
            await self.clock.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _admitted(self, method: Method, path: str, body: Mapping[str, Any] | None) -> Answer:
        """The first answer that is not about a rate limit."""
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        while True:
            answer = await self._transport.request(
                method, f"{self._api}{path}", headers=headers, body=content, deadline_s=ATTEMPT_S
            )
            if answer.status >= 300:
                answer = without_credential(answer, self._token)
            wait_s = self._limited_for(answer)
            if wait_s is None:
                return answer
            if self._waited_s + wait_s > MOST_WAIT_S:
                raise HostRefused(
                    f"the git host limits requests, and asks to wait {wait_s:.0f} s more",
                    answer.status,
                    help=f"run the same command again in {wait_s:.0f} s",
                )
            self._tell(f"the git host limits requests: waiting {wait_s:.0f} s")
            self._waited_s += wait_s
            await self.clock.sleep(wait_s)

    def _limited_for(self, answer: Answer) -> float | None:
        """Seconds to wait for a rate limit; None for any other answer. GitHub uses 403 for limits, too."""
        if answer.status not in (TOO_MANY, 403):
            return None
        asked_s = retry_after(answer, self.clock)
        is_out = answer.headers.get("x-ratelimit-remaining") == "0"
        is_named = asked_s is not None or is_out or answer.status == TOO_MANY
        if not is_named and "rate limit" not in self.said(answer).lower():
            return None
        if asked_s is None and (is_out or answer.status == TOO_MANY):
            asked_s = self._until_reset(answer)
        return max(_UNNAMED_LIMIT_S if asked_s is None else asked_s, 1.0)

    def _until_reset(self, answer: Answer) -> float | None:
        """Seconds until the limit is reset, by the host's clock; None where no header says it."""
        names = ("x-ratelimit-reset", "ratelimit-reset")
        text = next((answer.headers[name] for name in names if name in answer.headers), "").strip()
        if not text.isdecimal() or len(text) > 12:
            return None
        return float(text) - time_of(answer, self.clock).timestamp()
