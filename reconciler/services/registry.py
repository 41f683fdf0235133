"""The services of a command: the client that a call goes through, and how many requests all of them get."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from reconciler.core.errors import NoSuchService
from reconciler.core.model import Observation
from reconciler.core.steps import PLATFORM, Call, Method, Plan, Read, Template
from reconciler.core.words import in_words
from reconciler.services.client import UNBOUNDED, Client
from reconciler.services.rate import BURST

WORTH_TELLING_S = 2.0

RateKey = tuple[str, str]  # a service, and an action that its rate limit counts ("": it has no limit)


class Reader(Protocol):
    """Answers reads: `Services`, or a part of them."""

    async def read(self, read: Read) -> Observation:
        """See `Client.read`."""
        ...

    def time(self, service: str) -> datetime | None:
        """See `Client.time`; None for an unknown service."""
        ...


class Services(Struct, frozen=True):
    """The clients of all services, by the names that calls and reads give them.

    `trusted`: the git revision from which all providers are taken; "": they are those of the manifests.
    """

    clients: Mapping[str, Client]
    trusted: str = ""

    def of(self, name: str) -> Client:
        """Raises NoSuchService for a provider without a manifest."""
        if name not in self.clients and self.trusted:
            raise NoSuchService(
                f"there is no ExtensionProvider `{name}` at {self.trusted}",
                help="nothing is sent to a provider that only an untrusted change names: its extensions are "
                "planned once it is merged",
            )
        if name not in self.clients:
            raise NoSuchService(
                f"there is no ExtensionProvider `{name}` among the manifests",
                help=f"pass the manifest of ExtensionProvider/{name}, too: it has the provider's address, "
                "and says how to sign requests",
            )
        return self.clients[name]

    async def read(self, read: Read, slots: AbstractAsyncContextManager[object] = UNBOUNDED) -> Observation:
        """The answer of the service that `read` names. `slots`: see `Client.read`."""
        return await self.of(read.service).read(read, slots)

    def time(self, service: str) -> datetime | None:
        """See `Client.time`; None for an unknown service."""
        return self.clients[service].time() if service in self.clients else None


def providers_of(plan: Plan) -> Collection[str]:
    """The names of all providers that `plan` sends requests to, in the plan's order."""
    names = [step.call.service for step in plan.steps]
    names += [step.wait.read.service for step in plan.steps if step.wait is not None]
    names += [expected.read.service for expected in plan.expectations if expected.read is not None]
    names += [read.service for _, read in plan.inputs]
    return [name for name in dict.fromkeys(names) if name != PLATFORM]


def rate_key(services: Services, service: str, method: Method, path: str | Template) -> RateKey:
    """The key under which a rate limit counts a request."""
    client = services.clients.get(service)
    if client is None or client.rate.per_second is None:
        return service, ""
    return service, client.action(Call(method, _plain(path)))


def _plain(path: str | Template) -> str:
    """`path` with a name in the place of each value that an earlier answer will bring."""
    if isinstance(path, str):
        return path
    return "".join(part if isinstance(part, str) else str(part).replace("/", ":") for part in path.parts)


class Budget:
    """Counts the requests of a command, in groups: each group starts when the one before it is over.

    `limited_s`: seconds that the rate limits cost if answers come at once, and none is refused. `is_limited`:
    whether any of the requests has a limit.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.limited_s = 0.0
        self.is_limited = False
        self._full_s: dict[RateKey, float] = {}  # when a whole burst may go out again

    def add(self, services: Services, keys: Iterable[RateKey]) -> str:
        """Add a group. Returns a note about its time; "" if its limits cost less than `WORTH_TELLING_S`."""
        began_s, requests = self.limited_s, 0
        for key, number in Counter(keys).items():
            requests += number
            client = services.clients.get(key[0])
            if client is not None and client.rate.per_second is not None:
                self.is_limited = True
                full_s = max(self._full_s.get(key, 0.0), began_s) + number / client.rate.per_second
                self._full_s[key] = full_s
                self.limited_s = max(self.limited_s, full_s - BURST / client.rate.per_second)
        self.requests += requests
        takes_s = self.limited_s - began_s
        if takes_s < WORTH_TELLING_S:
            return ""
        return f"{requests:,} requests; the platform's limits allow them in about {in_words(takes_s)}"
