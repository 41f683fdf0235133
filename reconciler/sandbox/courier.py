"""Sends deliveries to providers, apart from the requests: no answer of the platform waits for a provider.

By the real clock: providers are processes of the real world. Source: platform API, 4.5, 5.2 and 6.2.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.parts.delivery import DELIVERED, FAILED, ONE, Delivery, waiting
from reconciler.sandbox.parts.provider import Provider
from reconciler.services import signing
from reconciler.services.transport import HttpTransport, Transport

MOST_ATTEMPTS = 5
DEADLINE_S = 10.0
_NAP_S = 0.1
_MOST_ANSWER = 64 * 1024  # bytes
_Sent = tuple[str, str, Mapping[str, str], bytes | None]  # method, URL, headers, body


class Courier:
    """Sends one delivery at a time to a provider, the oldest first; no provider waits for another.

    A delivery without a 2xx is sent again after 1, 2, 4 and 8 s, and then given up. `connect`
    gives the transport to a base URL.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        connect: Callable[[str], Transport] = lambda url: HttpTransport(url, max_body=_MOST_ANSWER),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sandbox = sandbox
        self._connect = connect
        self._monotonic = monotonic
        self._not_before: dict[str, float] = {}  # by delivery
        self._busy: set[str] = set()  # providers

    async def run(self) -> None:
        """Send until it is cancelled."""
        seen = -1
        async with asyncio.TaskGroup() as group:
            while True:
                revision = self._sandbox.world.revision
                if revision != seen or self._not_before:
                    for name, deliveries in self._due().items():
                        self._busy.add(name)
                        group.create_task(self._send(name, deliveries))
                    seen = revision
                await asyncio.sleep(_NAP_S)

    async def send_due(self) -> None:
        """Try once every delivery that is due now."""
        due = self._due()
        self._busy |= set(due)
        await asyncio.gather(*(self._send(name, deliveries) for name, deliveries in due.items()))

    def _due(self) -> dict[str, list[Delivery]]:
        """Due deliveries by provider, of those that are not busy."""
        found: dict[str, list[Delivery]] = {}
        now = self._monotonic()
        for delivery in waiting(self._sandbox.world):
            if delivery.provider not in self._busy and self._not_before.get(delivery.id, now) <= now:
                found.setdefault(delivery.provider, []).append(delivery)
        return found

    async def _send(self, name: str, deliveries: Sequence[Delivery]) -> None:
        try:
            for delivery in deliveries:
                await self._attempt(self._sandbox.world.find(Provider, name), delivery)
        finally:
            self._busy.discard(name)

    async def _attempt(self, provider: Provider | None, delivery: Delivery) -> None:
        world = self._sandbox.world
        delivery.attempts += 1
        delivery.status, delivery.problem = None, ""
        try:
            if provider is None or not provider.base_url or not provider.signing_secret:
                raise ReconcilerError("the provider has no base_url or no signing_secret")
            method, url, headers, body = prepared(provider, delivery, world.wall())
            async with aclosing(self._connect(provider.base_url)) as transport:
                answer = await transport.request(
                    method, url, headers=headers, body=body, deadline_s=DEADLINE_S
                )
            delivery.status = answer.status
            if delivery.purpose == "costs":
                delivery.answer = _decoded(answer.body)
        except ReconcilerError as error:
            delivery.problem = str(error)
        if delivery.status is not None and 200 <= delivery.status < 300:
            self._end(delivery, DELIVERED)
        elif delivery.attempts >= MOST_ATTEMPTS:
            self._end(delivery, FAILED)
        else:
            self._not_before[delivery.id] = self._monotonic() + 2.0 ** (delivery.attempts - 1)
            world.put(delivery)
        self._sandbox.tick()

    def _end(self, delivery: Delivery, state: str) -> None:
        self._not_before.pop(delivery.id, None)
        self._sandbox.world.enter(delivery, state)


def prepared(provider: Provider, delivery: Delivery, now: float) -> _Sent:
    """The signed request: signed anew at each attempt, because its time is part of what is signed."""
    secret = provider.signing_secret.encode("utf-8", "surrogatepass")
    if delivery.purpose == "event":
        headers, body = _event(delivery)
        signature = signing.signature(secret, body, provider.encoding)
        url = f"{provider.base_url}/extensions/events"
        return "POST", url, {**headers, signing.HEADER: signature}, body
    path = provider.costs_path.replace(ONE, quote(delivery.about, safe=""))
    url, nonce = f"{provider.base_url}{path}", secrets.token_hex(16)
    encoding = provider.encoding
    signed = signing.sign("GET", url, None, secret, timestamp=int(now), nonce=nonce, encoding=encoding)
    return signed.method, signed.url, {signing.HEADER: signed.signatures[0]}, None


def _event(delivery: Delivery) -> tuple[dict[str, str], bytes]:
    """In CloudEvents' binary mode."""
    from cloudevents.core.bindings.http import to_binary_event  # late: only events need it
    from cloudevents.core.v1.event import CloudEvent

    attributes = {
        "id": delivery.id,
        "source": delivery.source,
        "type": delivery.type,
        "specversion": "1.0",
        "time": datetime.fromtimestamp(delivery.made_at, UTC),
        "datacontenttype": "application/json",
    }
    message = to_binary_event(CloudEvent(attributes, delivery.payload))
    return message.headers, message.body


def _decoded(body: bytes) -> Any:
    """JSON as such, anything else as text."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
