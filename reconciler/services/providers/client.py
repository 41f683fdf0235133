"""An extension provider's API, as the platform calls it: signed requests, and answers without their secrets.

Here this program plays the platform's role: it holds the provider's signing secret, and the answers to
POST and PATCH bring the values that become an app's secrets. What leaves this module of an answer is chosen
field by field; the values of `config` leave it as `Sensitive` only.

Source: platform API, 2.7, 2.8, 4.5 and 5.2; platform notes, "Extension providers".
"""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError
from pydantic_core import to_json

from reconciler.core.clock import Clock
from reconciler.core.errors import (
    NoSuchService,
    NotFound,
    PlatformError,
    Refused,
    SecretUnavailable,
    TransportError,
    Unauthorized,
    Unreadable,
)
from reconciler.core.model import Observation
from reconciler.core.steps import Call, Read
from reconciler.secrets.redaction import SECRET_FIELDS, redact
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.answers import cleaned, error_text, first_difference, is_html, parsed, request_id
from reconciler.services.client import plain
from reconciler.services.machines import paths
from reconciler.services.outcome import Outcome, Verdict, classify, unanswered
from reconciler.services.providers.wire import SETTLED_STATUSES, Extension
from reconciler.services.retry import answer_to_get, time_of
from reconciler.services.shapes import read_shape
from reconciler.services.signing import HEADER, Encoding, sign
from reconciler.services.trace import trace
from reconciler.services.transport import Answer, GetOnly, Transport

_WITH_VALUES = ("POST", "PATCH")  # their answers hold `config`, and their refusals may repeat it
_TEXTS = ("name", "platform_app_name")
_COST_FIELDS = SECRET_FIELDS - {"value"}  # of an amount


class ProviderClient:
    """The provisioning API of one provider, with the three methods of `platform.client.Platform`.

    `name`: of its ExtensionProvider. `secret` is asked at each request and never kept; it raises
    SecretUnavailable. `new_nonce` gives a text that was never given before. `read_only`: everything but GET
    raises Refused. `jitter` gives numbers from 0 to 1. The platform's token is never sent here.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        base_url: str,
        secret: Callable[[], Sensitive],
        clock: Clock,
        *,
        new_nonce: Callable[[], str],
        encoding: Encoding = "hex",
        user_agent: str = "reconciler",
        read_only: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._transport = GetOnly(transport) if read_only else transport
        self._secret = secret
        self._clock = clock
        self._new_nonce = new_nonce
        self._encoding = encoding
        self._user_agent = user_agent
        self._read_only = read_only
        self._jitter = jitter

    def check(self) -> None:
        """Raises SecretUnavailable when requests could not be signed here."""
        self._secret()

    async def read(self, read: Read) -> Observation:
        """The complete answer to one GET, as wire models of its shape; `at` is the provider's time.

        Of a resource only the fields of `wire.extension.Extension` are kept. Raises NotFound, Unauthorized,
        Unreadable, NoSuchService without the signing secret, or another PlatformError.
        """
        path = plain(read.path)
        paths.check("GET", path)
        try:
            answer = await answer_to_get(
                path, partial(self._request, "GET", path, None), clock=self._clock, jitter=self._jitter
            )
        except SecretUnavailable as missing:
            raise NoSuchService(
                f"the signing secret of ExtensionProvider/{self.name} is not readable here",
                help=missing.message,
            ) from None
        if answer.status != 200:
            raise self._read_error(path, answer)
        reply = parsed(answer.body)
        if not isinstance(reply, dict):
            raise self._unreadable(path, answer, "an HTML page" if is_html(answer) else "not a JSON object")
        kept = _resource(reply, path) if read.shape == "extension" else redact(reply, _COST_FIELDS)
        try:
            objects = read_shape(read.shape, to_json(kept))
        except ValidationError as error:
            # `from None`: the validation error quotes the answer.
            raise self._unreadable(path, answer, first_difference(error)) from None
        return Observation(objects, complete=True, at=time_of(answer, self._clock))

    async def turn(self, call: Call) -> None:
        """At once: providers document no rate limit."""

    async def send(
        self,
        call: Call,
        *,
        id_path: str | None,
        accepts: Collection[str] = (),
        deadline_s: float = 30.0,
    ) -> Outcome:
        """Make one attempt, never a second, and return what it means (see `outcome.classify`).

        The reply holds `id`, `name`, `platform_app_name`, and `config` with each value as a `Sensitive`
        (None where it is no text). An empty `config` beside a status that is not settled is left out: the
        values are not there yet. Raises Refused, before anything is sent, for a path that is not safe and
        in read-only mode; SecretUnavailable, likewise.
        """
        method, path, body = call.method, plain(call.path), call.body
        if self._read_only and method != "GET":
            raise Refused(f"this command only reads: {method} {path} is not sent to {self.name}")
        paths.check(method, path)
        try:
            answer = await self._request(method, path, body, deadline_s)
        except TransportError as error:
            return unanswered(error)
        outcome = classify(answer, id_path=id_path, accepts=accepts)
        return _without_values(outcome) if method in _WITH_VALUES else replace(outcome, reply=None)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline_s: float
    ) -> Answer:
        signed = sign(
            method,
            self.base_url + path,
            body,
            self._secret().reveal().encode(),
            timestamp=int(self._clock.now().timestamp()),
            nonce=self._new_nonce(),
            encoding=self._encoding,
        )
        headers = {HEADER: signed.signatures[0], "accept": "application/json", "user-agent": self._user_agent}
        if method in _WITH_VALUES:
            headers["content-type"] = "application/json"
        started = self._clock.monotonic()
        status = 0
        try:
            answer = await self._transport.request(
                method, signed.url, headers=headers, body=signed.body or None, deadline_s=deadline_s
            )
            status = answer.status
            return answer
        finally:
            trace(method, path, status, self._clock.monotonic() - started, service=self.name)

    def _read_error(self, path: str, answer: Answer) -> PlatformError:
        code, text = error_text(answer, parsed(answer.body))
        told = f": {text or code}" if text or code else ""
        message = f"GET {path} was answered {answer.status} by provider {self.name}{told}"
        details: dict[str, Any] = {"status": answer.status, "path": path, "request_id": request_id(answer)}
        if answer.status in (401, 403):
            hint = f"check `signing_secret_from` of ExtensionProvider/{self.name}, and this machine's clock"
            return Unauthorized(message, help=hint, **details)
        if answer.status in (404, 410) and not is_html(answer):
            return NotFound(message, **details)
        if answer.status < 400:
            return Unreadable(message, help=self._base_url_hint(), **details)
        return PlatformError(message, **details)

    def _unreadable(self, path: str, answer: Answer, problem: str) -> Unreadable:
        return Unreadable(
            f"the answer of provider {self.name} to GET {path} is not what the API document promises "
            f"({problem})",
            status=answer.status,
            path=path,
            request_id=request_id(answer),
            help=self._base_url_hint(),
        )

    def _base_url_hint(self) -> str:
        return f"check `base_url` of ExtensionProvider/{self.name}"


def _resource(reply: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The known fields. The id is the one that was asked for: no document says that the answer repeats it."""
    kept = {name: reply[name] for name in Extension.model_fields if name in reply}
    return {**kept, "id": unquote(path.rpartition("/")[2])}


def _without_values(outcome: Outcome) -> Outcome:
    """`outcome` with what is known of its reply, and without the provider's words about a refused call."""
    if outcome.kind is Verdict.YES and isinstance(outcome.reply, dict):
        return replace(outcome, reply=_provisioned(outcome.reply, outcome.id))
    if outcome.status < 300:  # its message is ours
        return replace(outcome, reply=None)
    word = f" ({outcome.refusal})" if outcome.refusal else ""
    message = f"status {outcome.status}{word}; the provider's words are not shown: they may repeat a value"
    return replace(outcome, reply=None, message=message)


def _provisioned(reply: Mapping[str, Any], id: str | None) -> dict[str, Any]:
    kept: dict[str, Any] = {"id": id} if id is not None else {}
    kept |= {name: cleaned(reply[name]) for name in _TEXTS if isinstance(reply.get(name), str)}
    config: Any = reply.get("config")
    early = config == {} and reply.get("status", "ready") not in SETTLED_STATUSES
    if isinstance(config, dict) and not early:
        kept["config"] = {
            key: Sensitive(value) if isinstance(value, str) else None for key, value in config.items()
        }
    return kept
