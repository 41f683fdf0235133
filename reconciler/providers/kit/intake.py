"""Requests from the network: read whole, within limits, and known to come from the platform.

Machine events are CloudEvents in binary mode, each handled once. Id, source and type are in headers, which
nothing signs. They tell events apart and choose nothing more: a handler is to read the machine again. The
digest of the body takes part in telling events apart; else somebody could use up the id of an event by
sending it with the body of another one.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import anyio
from cloudevents.core.bindings.http import HTTPMessage, from_binary_event
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from reconciler.core.clock import Clock
from reconciler.core.listening import Allowance
from reconciler.providers.kit.functions import MachineEvent
from reconciler.providers.kit.settings import ProviderSettings
from reconciler.providers.kit.store import Store
from reconciler.services import signing

BODY_S = 10.0
_SMALL_BYTES = 16_384
_PLATFORM = "signed"  # in place of an address, which has dots or colons
_PRUNE_EVERY = 256  # claims
KEEP_EVENTS_S = 7 * 24 * 3600
_MOST_HEADER = 1024

Handler = Callable[[MachineEvent], Awaitable[None]]


class Refusal(Exception):
    """An answer that ends a request before its work began."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = JSONResponse({"error": message}, status, dict(headers or {}))


def unauthorized() -> Response:
    """The refusal of all calls that are not authentic: the same bytes for every reason.

    The connection closes, and with it ends the rest of an unread body.
    """
    return JSONResponse({"error": "unauthorized"}, 401, {"connection": "close"})


def too_many() -> Refusal:
    """The refusal (429) of a caller that has used up its allowance."""
    return Refusal(429, "too many requests", {"retry-after": "1", "connection": "close"})


def address_of(request: Request) -> str:
    """The address of the caller, or of the last proxy that is not one of ours (`--proxy`)."""
    return request.client.host if request.client else ""


@dataclass(slots=True)
class Intake:
    """Reads and verifies requests of the platform. Raises NotAuthentic, or Refusal (429).

    Requests that are not authentic spend the allowance of their address; authentic ones share another. Behind
    a proxy, all callers have one address, and a stranger must not use up the platform's allowance.
    """

    settings: ProviderSettings
    store: Store
    clock: Clock
    allowance: Allowance
    handler: Handler | None = None
    _claims: int = 0

    async def signed(self, request: Request) -> Mapping[str, Any]:
        """The signed fields of an API call."""

        # The address that the request was sent to. The Host header is not used: anybody can write it.
        path = request.scope.get("raw_path", b"").decode("latin-1")
        query = request.scope["query_string"].decode("latin-1")
        url = f"{self.settings.origin}{path}{'?' if query else ''}{query}"

        def verified(body: bytes) -> Mapping[str, Any]:
            return signing.verify(
                signing.Signed(request.method, url, _signatures(request), body),
                self.settings.signing_secrets,
                now=self._now(),
                claim=self._claim,
                encoding=self.settings.encoding,
            )

        return (await self._authentic(request, verified))[1]

    async def take_event(self, request: Request) -> Response:
        """Call `handler` once for each event, in whichever worker it arrives: 202 when that is done.

        Raises NotAuthentic, Refusal (422, 429, 409).
        """

        def verified(body: bytes) -> Mapping[str, Any]:
            return signing.verify_event(
                _signatures(request), body, self.settings.signing_secrets, encoding=self.settings.encoding
            )

        body, fields = await self._authentic(request, verified)
        source, event = _read(request, body, fields)
        digest = sha256(b"\0".join((source.encode(), event.id.encode(), body))).hexdigest()
        lease = f"event:{digest}"
        if self.store.row("SELECT 1 FROM events WHERE digest = ?", digest) is None:
            if not self.store.take(lease):
                raise Refusal(409, "this event is being handled", {"retry-after": "1"})
            try:
                if self.handler is not None:
                    await self.handler(event)
                # Recorded only now: an event whose handler failed, or died, comes again.
                now = self._now()
                self.store.claim("events", digest, now)
                self.store.forget_before("events", now - KEEP_EVENTS_S)
            finally:
                self.store.release(lease)
        return JSONResponse({"status": "taken"}, 202)

    async def _authentic(
        self, request: Request, verified: Callable[[bytes], Mapping[str, Any]]
    ) -> tuple[bytes, Mapping[str, Any]]:
        """Body and signed fields. A small signed request passes even if its address has no allowance left."""
        address = address_of(request)
        if _is_large(request) and not self.allowance.left(address):
            raise too_many()
        try:
            body = await self._body(request)
            fields = verified(body)
        except signing.NotAuthentic:
            if not self.allowance.spend(address):
                raise too_many() from None
            raise
        if not self.allowance.spend(_PLATFORM):
            raise too_many()
        return body, fields

    async def _body(self, request: Request) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(BODY_S):
                async for piece in request.stream():
                    size += len(piece)
                    if size > signing.MAX_SIGNED:
                        raise signing.NotAuthentic("the body is too large")
                    pieces.append(piece)
        except TimeoutError:
            raise signing.NotAuthentic("the body did not arrive in time") from None
        except ClientDisconnect:
            raise signing.NotAuthentic("the body is incomplete") from None
        return b"".join(pieces)

    def _claim(self, digest: str) -> bool:
        self._claims += 1
        if self._claims % _PRUNE_EVERY == 1:
            # A minute longer than the rule says: the timestamp of a nonce may lie in the future.
            self.store.forget_before("nonces", self._now() - signing.KEEP_S - 60)
        return self.store.claim("nonces", digest, self._now())

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _is_large(request: Request) -> bool:
    """Whether reading the body costs more than looking at a signature."""
    length = request.headers.get("content-length", "0")
    chunked = "transfer-encoding" in request.headers
    return chunked or not length.isdecimal() or int(length) > _SMALL_BYTES


def _signatures(request: Request) -> list[str]:
    return request.headers.getlist(signing.HEADER)


def _read(request: Request, body: bytes, fields: Mapping[str, Any]) -> tuple[str, MachineEvent]:
    """The event's source, and the event. Raises Refusal (422) naming the field."""
    headers = {name: value for name, value in request.headers.items() if name.startswith("ce-")}
    for name in ("ce-id", "ce-source", "ce-type", "ce-specversion"):
        if not headers.get(name) or len(headers[name]) > _MOST_HEADER:
            raise Refusal(422, f"`{name}` is missing, empty or too long")
    try:
        event = from_binary_event(HTTPMessage({**headers, "content-type": "application/json"}, body))
    except Exception:  # the SDK has several, and dateutil's besides
        raise Refusal(422, "the headers are not those of a CloudEvent") from None
    machine_id, status, data = fields.get("machine_id"), fields.get("status"), fields.get("data")
    data = {} if data is None else data
    if not isinstance(machine_id, str) or not machine_id:
        raise Refusal(422, "`machine_id` must be text")
    if not isinstance(status, str | None):
        raise Refusal(422, "`status` must be text")
    if not isinstance(data, dict):
        raise Refusal(422, "`data` must be an object")
    return event.get_source(), MachineEvent(machine_id, status, data, event.get_type(), event.get_id())
