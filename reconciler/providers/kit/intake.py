"""What comes in from the network: read whole, within limits, and known to come from the platform."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from reconciler.core.clock import Clock
from reconciler.providers.kit.settings import ProviderSettings
from reconciler.providers.kit.store import Store
from reconciler.services import signing

BODY_S = 10.0
_BURST_S = 2.0
_MOST_ADDRESSES = 1024
_PRUNE_EVERY = 256  # claims


class Refusal(Exception):
    """An answer that ends a request before its work began."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = JSONResponse({"error": message}, status, dict(headers or {}))


def unauthorized() -> Response:
    """The same bytes whatever was wrong; the rest of an unread body ends with the connection."""
    return JSONResponse({"error": "unauthorized"}, 401, {"connection": "close"})


class Allowance:
    """Requests per second and address, as buckets that fill with time. The oldest addresses are forgotten."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, address: str) -> bool:
        if not self._rate:
            return True
        most, now = self._rate * _BURST_S, self._clock.monotonic()
        left, since = self._buckets.pop(address, (most, now))
        left = min(most, left + (now - since) * self._rate)
        self._buckets[address] = (max(left - 1, 0.0), now)
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return left >= 1


@dataclass(slots=True)
class Intake:
    """Reads and verifies requests of the platform. Raises NotAuthentic, or Refusal (429)."""

    settings: ProviderSettings
    store: Store
    clock: Clock
    allowance: Allowance
    _claims: int = 0

    async def signed(self, request: Request) -> Mapping[str, Any]:
        """The signed fields of an API call."""
        body = await self._body(request)
        return signing.verify(
            signing.Signed(request.method, self._url(request), _signatures(request), body),
            self.settings.signing_secrets,
            now=self._now(),
            claim=self._claim,
            encoding=self.settings.encoding,
        )

    async def event(self, request: Request) -> tuple[bytes, Mapping[str, Any]]:
        """The body of a machine event, raw and read."""
        body = await self._body(request)
        fields = signing.verify_event(
            _signatures(request), body, self.settings.signing_secrets, encoding=self.settings.encoding
        )
        return body, fields

    async def _body(self, request: Request) -> bytes:
        address = request.client.host if request.client else ""
        if not self.allowance.spend(address):
            raise Refusal(429, "too many requests", {"retry-after": "1", "connection": "close"})
        pieces: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(BODY_S):
                async for piece in request.stream():
                    size += len(piece)
                    if size > signing.MAX_SIGNED:
                        _refuse("the body is too large")
                    pieces.append(piece)
        except TimeoutError:
            _refuse("the body did not come in time")
        except ClientDisconnect:
            _refuse("the body is not complete")
        return b"".join(pieces)

    def _url(self, request: Request) -> str:
        """The address that the request was sent to. The Host header is anybody's to write: not used."""
        path = request.scope.get("raw_path", b"").decode("latin-1")
        query = request.scope["query_string"].decode("latin-1")
        return f"{self.settings.origin}{path}{'?' if query else ''}{query}"

    def _claim(self, digest: str) -> bool:
        self._claims += 1
        if self._claims % _PRUNE_EVERY == 1:
            # A minute more than the rule asks for: the nonce's own timestamp may lie in the future.
            self.store.forget_before("nonces", self._now() - signing.KEEP_S - 60)
        return self.store.claim("nonces", digest, self._now())

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _signatures(request: Request) -> list[str]:
    return request.headers.getlist(signing.HEADER)


def _refuse(why: str) -> NoReturn:
    raise signing.NotAuthentic(why)
