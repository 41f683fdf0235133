"""A courier of a sandbox in process, which hands what it sends to a provider that is only played."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox.courier import Courier
from reconciler.services.transport import Answer
from tests.sandbox.platform import Platform


class Sent(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Played:
    """A provider and the courier to it. `answers`: a status, or why there is none; 202 when none is left."""

    platform: Platform
    answers: list[int | ReconcilerError] = field(default_factory=list)
    body: bytes = b""
    sent: list[Sent] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self._courier = Courier(self.platform.sandbox, connect=lambda url: self, monotonic=lambda: self.now_s)

    def send(self) -> list[Sent]:
        """What is sent now, if anything is due."""
        before = len(self.sent)
        anyio.run(self._courier.send_due)
        return self.sent[before:]

    def deliveries(self) -> list[dict[str, Any]]:
        deliveries: list[dict[str, Any]] = self.platform.ok("GET", "/_sandbox/deliveries")
        return deliveries

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        self.sent.append(Sent(method, url, dict(headers), body or b""))
        answer = self.answers.pop(0) if self.answers else 202
        if isinstance(answer, ReconcilerError):
            raise answer
        return Answer(answer, {}, self.body)

    async def aclose(self) -> None:
        pass
