"""One message to one address: signed, in a budget, no redirect followed. Source: Standard Webhooks 1.0."""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError, TransportError
from reconciler.notify.bodies import Body
from reconciler.services.retry import answer_in_time
from reconciler.services.transport import Answer, Transport, host_and_port, is_loopback

_PREFIX = "whsec_"
_LEAST_KEY, _MOST_KEY = 24, 64  # bytes


async def deliver(
    transport: Transport,
    url: str,
    body: Body,
    id: str,
    key: bytes | None,
    *,
    clock: Clock,
    jitter: Callable[[], float],
    user_agent: str,
) -> None:
    """Raises ReconcilerError where no attempt was answered with a success. It names the host, not the `url`.

    `key`: signs each attempt; None where the receiver checks nothing.
    """

    async def attempt(deadline_s: float) -> Answer:
        headers = {
            "content-type": body.content_type,
            "user-agent": user_agent,
            "webhook-id": id,
            **(_signed(id, int(clock.now().timestamp()), body.data, key) if key is not None else {}),
        }
        return await transport.request("POST", url, headers=headers, body=body.data, deadline_s=deadline_s)

    host = host_and_port(url)
    try:
        answer = await answer_in_time(attempt, clock=clock, jitter=jitter)
    except TransportError as failure:
        raise ReconcilerError(f"{host} got no answer across: {failure.message}") from None
    if 300 <= answer.status < 400:
        raise ReconcilerError(f"{host} answered {answer.status}: no redirect is followed")
    if not 200 <= answer.status < 300:
        raise ReconcilerError(f"{host} answered {answer.status}")


def _signed(id: str, timestamp: int, body: bytes, key: bytes) -> Mapping[str, str]:
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return {
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode('ascii')}",
    }


def parse_key(secret: str) -> bytes:
    """The key of a secret as Standard Webhooks writes it. Raises ReconcilerError, without the secret."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not _LEAST_KEY <= len(key) <= _MOST_KEY:
        raise ReconcilerError(
            f"the secret is not `{_PREFIX}` and {_LEAST_KEY} to {_MOST_KEY} bytes in base64",
            help=f"make one: printf {_PREFIX}; head -c 32 /dev/urandom | base64",
        )
    return key


def parse_url(text: str) -> str:
    """An address that may be sent to. Raises ReconcilerError, without the address: it may be a secret."""
    url = text.strip()
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url or "@" in parts.netloc or "#" in url:
        raise ReconcilerError("the address is not one such as https://hooks.example.com/PATH")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
        raise ReconcilerError("the address does not begin with https:// (http is for loopback only)")
    return url


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
