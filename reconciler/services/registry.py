"""Which client a call goes through: the platform's, or an extension provider's, by the service's name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.core.errors import NoSuchService
from reconciler.core.model import Observation
from reconciler.core.steps import PLATFORM, Call, Plan, Read
from reconciler.services.outcome import Outcome


class Service(Protocol):
    """What all clients offer; see `platform.client.Platform` for what each method promises."""

    async def read(self, read: Read) -> Observation: ...

    async def turn(self, call: Call) -> None: ...

    async def send(
        self,
        call: Call,
        *,
        id_path: str | None,
        accepts: Collection[str] = (),
        deadline_s: float = 30.0,
    ) -> Outcome: ...


class Provider(Service, Protocol):
    """An extension provider's client."""

    @property
    def base_url(self) -> str:
        """Where its calls go, without a slash at the end."""
        ...

    def check(self) -> None:
        """Raises SecretUnavailable when its requests could not be signed here."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """The platform and the providers, by their names."""

    platform: Service
    providers: Mapping[str, Provider] = field(default_factory=dict)

    def of(self, name: str) -> Service:
        """Raises NoSuchService for a provider without a manifest."""
        return self.platform if name == PLATFORM else self.provider(name)

    async def read(self, read: Read) -> Observation:
        """The answer of the service that `read` names."""
        return await self.of(read.service).read(read)

    def provider(self, name: str) -> Provider:
        """Raises NoSuchService for a provider without a manifest."""
        if name not in self.providers:
            raise NoSuchService(
                f"there is no ExtensionProvider `{name}` among the manifests",
                help=f"give the manifest of ExtensionProvider/{name} too: it says where the provider is, and "
                "how its requests are signed",
            )
        return self.providers[name]


def providers_of(plan: Plan) -> Collection[str]:
    """The names of all providers that carrying out `plan` needs, in the plan's order."""
    names = [step.call.service for step in plan.steps]
    names += [step.wait.read.service for step in plan.steps if step.wait is not None]
    names += [expected.read.service for expected in plan.expectations if expected.read is not None]
    names += [read.service for _, read in plan.inputs]
    return [name for name in dict.fromkeys(names) if name != PLATFORM]
