"""Reads and changes one service: GETs are retried, mutations never."""

import logging
import random
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypedDict

from pydantic import ValidationError

from reconciler.core.clock import Clock
from reconciler.core.errors import (
    AppMissing,
    NoSuchService,
    NotFound,
    NotYet,
    PlatformError,
    Refused,
    SecretUnavailable,
    TooLarge,
    TransportError,
    Unauthorized,
    UnreadableAnswer,
)
from reconciler.core.model import Observation
from reconciler.core.steps import Call, Read, Template
from reconciler.core.tracing import span
from reconciler.services.outcome import (
    Outcome,
    Refusal,
    classify,
    cleaned,
    error_text,
    first_difference,
    http_date,
    is_html,
    parsed,
    read_shape,
    recognise,
    request_id,
    unanswered,
)
from reconciler.services.rate import RateLimit
from reconciler.services.retry import Breaker, answer_in_time, fails, retry_after, time_of
from reconciler.services.service import Auth, Service, without_credential
from reconciler.services.transport import Answer, GetOnly, Transport, check_path, host_and_port

_NAMED = re.compile("/(?!v1/)([^/]+)/[^/]+")  # things in a path, and which: `/apps/shop`
UNBOUNDED = nullcontext[object]()  # any number of requests may be under way

# The stdlib's level check costs 0.1 µs; structlog is imported only for a log that is switched on.
_listener = logging.getLogger("reconciler.http")


def trace(method: str, path: str, status: int, elapsed_s: float, *, service: str = "") -> None:
    """Log one debug event for a request, without bodies, headers or signatures.

    `status`: 0 if no answer came. `service`: the name of a provider.
    """
    if not _listener.isEnabledFor(logging.DEBUG):
        return
    import structlog

    log = structlog.get_logger("reconciler.http")
    where = {"service": service} if service else {}
    log.debug(
        "http.request", method=method, path=path, status=status, elapsed_ms=round(elapsed_s * 1000), **where
    )


class ClientOptions(TypedDict, total=False):
    """Options of any client.

    `rate`: for each action (see `Service.action`); several clients may share it. `read_only`: all but GET
    raises Refused. `credential`: where people find the credential that `auth` uses. `jitter` gives numbers
    from 0 to 1.
    """

    rate: RateLimit
    user_agent: str
    read_only: bool
    credential: str
    jitter: Callable[[], float]


class Client:
    """The API of one service at `base_url`. Paths of calls and reads must be plain text."""

    def __init__(
        self,
        service: Service,
        auth: Auth,
        transport: Transport,
        base_url: str,
        clock: Clock,
        *,
        rate: RateLimit | None = None,
        user_agent: str = "reconciler",
        read_only: bool = False,
        credential: str = "",
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.service = service
        self.credential = credential
        self.base_url = base_url.rstrip("/")
        self.address = host_and_port(base_url)  # for people
        self._auth = auth
        self._transport = GetOnly(transport) if read_only else transport
        self._clock = clock
        self.rate = rate or RateLimit(None, clock)
        self.label = service.label or "the platform"  # in messages
        self.breaker = Breaker(self.label, clock)
        self._user_agent = user_agent
        self._read_only = read_only
        self._jitter = jitter
        self._service_time: tuple[datetime, float] | None = None  # of the newest answer, and our clock then

    @property
    def name(self) -> str:
        """The service's name in calls and reads."""
        return self.service.name

    def check(self) -> None:
        """Raises ReconcilerError (SecretUnavailable for a signing secret) if no request can be sent."""
        self._auth.check()

    async def read(self, read: Read, slots: AbstractAsyncContextManager[object] = UNBOUNDED) -> Observation:
        """The complete answer to one GET, as wire models of its shape; `at` is the service's time.

        A request holds one of `slots` while it is under way, not while it waits to be sent, or sent again.
        Raises NotFound, AppMissing, Unauthorized, NotYet, UnreadableAnswer, NoSuchService without the secret
        that signs requests, Down, and PlatformError if there is no proper answer within
        `retry.READ_BUDGET_S`.
        """
        path = _plain(read.path)
        check_path("GET", path)
        try:
            answer = await self._get(path, slots)
        except SecretUnavailable as missing:
            raise NoSuchService(self.service.no_secret, help=missing.message) from None
        if answer.status != 200:
            failure = self._read_error(read, answer)
            is_outage = fails(answer.status) and self.breaker.is_open
            raise self.breaker.down(failure) if is_outage else failure
        try:
            objects = read_shape(read.shape, self.service.content(read, answer.body))
        except ValidationError as error:
            # `from None`: the validation error quotes the answer.
            raise self._unreadable(read, answer, first_difference(error)) from None
        if not read.shape.many and (name := objects[0].bad_id):
            raise self._unreadable(read, answer, f"its `{name}` is not a valid id")
        return Observation(objects, complete=True, at=time_of(answer, self._clock))

    async def ask(self, read: Read, deadline_s: float) -> Answer:
        """The unparsed answer to one GET, which is sent once. Raises TransportError if there is none."""
        path = _plain(read.path)
        check_path("GET", path)
        return await self._request("GET", path, None, deadline_s)

    def time(self) -> datetime | None:
        """The service's time: that of its newest answer, plus the time since. None if no answer had one."""
        if self._service_time is None:
            return None
        at, then_s = self._service_time
        return at + timedelta(seconds=self._clock.monotonic() - then_s)

    def action(self, call: Call) -> str:
        """The action as which the service's rate limit counts `call`."""
        return self._action(call.method, _plain(call.path))

    async def send(
        self, call: Call, *, id_path: str | None, accepts: Collection[str] = (), deadline_s: float = 30.0
    ) -> Outcome:
        """Send `call` once, never twice, at once, and return its outcome (see `outcome.classify`).

        The caller waits for the rate limit before: an intent is recorded when its call is due, not when it
        queues.

        The body of `call` is JSON, with the values of secrets. Before anything is sent, it raises Refused for
        a path that is not safe and in read-only mode, and the errors of `Auth.prepare`.
        """
        method, path = call.method, _plain(call.path)
        if self._read_only and method != "GET":
            to = f" to {self.service.label}" if self.service.label else ""
            raise Refused(f"this command only reads: {method} {path} is not sent{to}")
        check_path(method, path)
        try:
            answer = await self._request(method, path, call.body, deadline_s)
        except TransportError as error:
            outcome = unanswered(error)
            message = f"{method} {path} at {self.address} got no answer: {outcome.message}"
            return replace(outcome, message=message)
        finally:
            self.rate.answered(self.action(call))
        if not fails(answer.status):
            self.breaker.answered()
        outcome = classify(answer, self.service.policy, id_path=id_path, accepts=accepts)
        outcome = self.service.outcome(outcome, call)
        message = f"{self._answered(method, path, answer)}: {outcome.message}" if outcome.message else ""
        return replace(outcome, message=message, retry_after_s=retry_after(answer, self._clock))

    def _answered(self, method: str, path: str, answer: Answer) -> str:
        by = f" by {self.service.label}" if self.service.label else ""
        return f"{method} {path} was answered {answer.status}{by}"

    def _action(self, method: str, path: str) -> str:
        return self.service.action(method, path) if self.service.action is not None else ""

    async def _get(self, path: str, slots: AbstractAsyncContextManager[object]) -> Answer:
        """The last answer to a GET within the budget (see `retry`)."""
        action = self._action("GET", path)
        await self.rate.wait(action)

        async def attempt(deadline_s: float) -> Answer:
            """One attempt with its slot, unless the breaker is open."""
            async with slots:
                self.breaker.enter(path)
                try:
                    return await self._watched(path, deadline_s)
                finally:
                    self.rate.answered(action)

        try:
            answer = await answer_in_time(
                attempt,
                clock=self._clock,
                jitter=self._jitter,
                is_useless=lambda: self.breaker.is_open,
            )
        except TransportError as lost:
            self.breaker.gave_up(path)
            is_large = isinstance(lost, TooLarge)  # an answer, so the service and its connections work
            how = "" if is_large else f" at {self.address} got no answer"
            failure = PlatformError(f"GET {path}{how}: {lost.message}", path=path)
            cause = None if is_large else lost
            raise (self.breaker.down(failure) if self.breaker.is_open else failure) from cause
        if fails(answer.status):
            self.breaker.gave_up(path)
        return answer

    async def _watched(self, path: str, deadline_s: float) -> Answer:
        """One GET, whose outcome the breaker gets."""
        began_s = self._clock.monotonic()
        try:
            answer = await self._request("GET", path, None, deadline_s)
        except TooLarge:
            self.breaker.answered()
            raise
        except TransportError as error:
            self.breaker.failed(path, f"at {self.base_url} has not answered ({error.message})", began_s)
            raise
        if fails(answer.status):
            self.breaker.failed(path, f"has answered {answer.status}", began_s, status=answer.status)
        else:
            self.breaker.answered()
        return answer

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline_s: float
    ) -> Answer:
        """Send one request with its credential, trace it, and take the credential out of an error answer."""
        prepared = self._auth.prepare(method, self.base_url + path, body, self._clock.now())
        headers = {**prepared.headers, "accept": "application/json", "user-agent": self._user_agent}
        if prepared.body is not None:
            headers["content-type"] = "application/json"
        route, host = _NAMED.sub(r"/\1/{}", path.partition("?")[0]), self.address.rpartition(":")[0]
        about = {"http.request.method": method, "url.template": route, "server.address": host}
        started = self._clock.monotonic()
        status = 0
        try:
            with span(f"{method} {route}", about, call=True) as note:
                answer = await self._transport.request(
                    method, prepared.url, headers=headers, body=prepared.body, deadline_s=deadline_s
                )
                status = answer.status
                note("http.response.status_code", status)
            if (at := http_date(answer.headers.get("date", ""))) is not None:
                self._service_time = at, self._clock.monotonic()
            return without_credential(answer, prepared.credential) if status >= 400 else answer
        finally:
            service = self.service.name if self.service.label else ""
            trace(method, path, status, self._clock.monotonic() - started, service=service)

    def _read_error(self, read: Read, answer: Answer) -> PlatformError:
        """The error that `answer`, which is not a 200, means for `read`."""
        service, path = self.service, _plain(read.path)
        code, text = error_text(answer, parsed(answer.body))
        details: dict[str, Any] = {"status": answer.status, "path": path, "request_id": request_id(answer)}
        message = self._answered("GET", path, answer)
        refusal = recognise(service.policy.refusals, answer.status, code, text)
        if read.sensitive or service.label:  # a manifest can name any address as a provider's
            word = f"{refusal}; " if refusal else ""
            why = "they may repeat a value" if read.sensitive else "they do not come from the platform"
            message += f" ({word}the answer's words are not shown: {why})"
        elif text or code:
            message += f": {text or code}"
        if answer.status in (401, 403):
            named = answer.status == 401 and self.credential
            help = f"renew the token ({self.credential})" if named else service.check_access(path)
            return Unauthorized(message, help=help, **details)
        if answer.status in (404, 410) and not is_html(answer):
            missing = refusal is Refusal.APP_MISSING
            return (AppMissing if missing else NotFound)(message, **details)
        if refusal is Refusal.STATE_NOT_REACHED:
            return NotYet(message if read.sensitive or service.label else text, **details)
        if answer.status < 400:  # no redirect is followed; 204 and 206 hold no complete answer
            return UnreadableAnswer(message, help=service.check_address, **details)
        if fails(answer.status) and "retry-after" in answer.headers:
            who = service.label or "the platform"
            asked = "" if service.label else f" {cleaned(answer.headers['retry-after'])}"
            help = f"{who} asks to wait: retry-after{asked}"
            return PlatformError(message, help=help, **details)
        return PlatformError(message, **details)

    def _unreadable(self, read: Read, answer: Answer, difference: str) -> UnreadableAnswer:
        """The error for an answer that does not match the API document, without quoting the answer."""
        problem = "an HTML page" if is_html(answer) else difference
        of = f" of {self.service.label}" if self.service.label else ""
        return UnreadableAnswer(
            f"the answer{of} to GET {read.path} does not match the API document ({problem})",
            status=answer.status,
            path=_plain(read.path),
            request_id=request_id(answer),
            help=f"{self.service.check_address}, and whether there is a proxy in between",
        )


def _plain(path: str | Template) -> str:
    assert isinstance(path, str)
    return path
