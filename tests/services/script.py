"""A transport that plays a script, and a clock that only sleeping moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from reconciler.services.client import Client
from reconciler.services.platform import platform_client
from reconciler.services.rate import RateLimit
from reconciler.services.transport import Answer

START = datetime(2026, 1, 1, tzinfo=UTC)


class Sent(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    deadline_s: float
    at_s: float


@dataclass
class SimulatedClock:
    elapsed_s: float = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        self.elapsed_s += seconds


@dataclass
class Script:
    """Answers with `steps` in turn, the last one again and again; an exception is raised."""

    clock: SimulatedClock
    steps: tuple[Answer | Exception, ...]
    takes_s: float = 0.0
    sent: list[Sent] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        self.sent.append(Sent(method, url, dict(headers), body, deadline_s, self.clock.elapsed_s))
        self.clock.elapsed_s += self.takes_s
        step = self.steps[min(len(self.sent), len(self.steps)) - 1]
        if isinstance(step, Exception):
            raise step
        return step

    async def aclose(self) -> None:
        """Nothing is open."""


def reply(body: bytes | str = b"", status: int = 200, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, names, body.encode() if isinstance(body, str) else body)


def platform(
    *steps: Answer | Exception,
    base_url: str = "https://platform.example/api/",
    token: str = "t0ken",
    rate_limit: float | None = None,
    read_only: bool = False,
    takes_s: float = 0.0,
) -> tuple[Client, Script]:
    """A client whose transport plays `steps`, and that transport."""
    clock = SimulatedClock()
    script = Script(clock, steps, takes_s)
    client = platform_client(
        script,
        base_url,
        lambda: token,
        clock,
        rate=RateLimit(rate_limit, clock),
        user_agent="reconciler/test",
        read_only=read_only,
        jitter=lambda: 1.0,
    )
    return client, script
