"""Which client a call goes through, by the name of its service."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from reconciler.core.errors import NoSuchService
from reconciler.core.model import Observation
from reconciler.core.steps import PLATFORM, Plan, Read
from reconciler.services.client import UNBOUNDED, Client


class Reader(Protocol):
    """What answers reads: `Services`, or a part of them."""

    async def read(self, read: Read) -> Observation:
        """See `Client.read`."""
        ...

    def time(self, service: str) -> datetime | None:
        """See `Client.time`; None for a service that nobody knows."""
        ...


class Services(Struct, frozen=True):
    """The clients of all services, by the names that calls and reads give.

    `trusted`: the only git revision whose providers are among them; "": those of the manifests are.
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
                help=f"pass the manifest of ExtensionProvider/{name}, too: it has the provider's "
                "address, and says "
                "how to sign requests",
            )
        return self.clients[name]

    async def read(self, read: Read, slots: AbstractAsyncContextManager[object] = UNBOUNDED) -> Observation:
        """The answer of the service that `read` names. `slots`: see `Client.read`."""
        return await self.of(read.service).read(read, slots)

    def time(self, service: str) -> datetime | None:
        """See `Client.time`; None for a service that nobody knows."""
        return self.clients[service].time() if service in self.clients else None


def providers_of(plan: Plan) -> Collection[str]:
    """The names of all providers that carrying out `plan` needs, in the plan's order."""
    names = [step.call.service for step in plan.steps]
    names += [step.wait.read.service for step in plan.steps if step.wait is not None]
    names += [expected.read.service for expected in plan.expectations if expected.read is not None]
    names += [read.service for _, read in plan.inputs]
    return [name for name in dict.fromkeys(names) if name != PLATFORM]
