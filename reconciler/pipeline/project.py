"""What every verb works with: the doors to the outside, and the loaded manifests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.core.clock import Clock
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Address, Observation, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.core.steps import PLATFORM, Read
from reconciler.execution.limits import Limits
from reconciler.secrets.sources import Sources
from reconciler.services.client import Client
from reconciler.services.observe import observe
from reconciler.services.registry import Services
from reconciler.state.spooling import Spooling


@dataclass(frozen=True, slots=True)
class Project:
    """What a verb needs from outside. `new_id`: ids of plans and runs; `holder`: this process, for people.

    `providers`: those that the manifests declare, by name. `environment`: the chosen one; "" for none.
    """

    store: Spooling
    platform: Client
    capabilities: frozenset[str]
    limits: Limits
    clock: Clock
    reporter: Reporter
    sources: Sources
    new_id: Callable[[], str]
    holder: str
    lock_timeout_s: float = 0.0
    providers: Mapping[str, Client] = field(default_factory=dict)
    environment: str = ""

    @property
    def services(self) -> Services:
        return Services({**self.providers, PLATFORM: self.platform})


@dataclass(frozen=True, slots=True)
class Desired:
    """The loaded manifests. `selected`: whether a record without a manifest belongs to the files given.

    `policies`: resources of kinds that own no objects, such as providers. `focus`: the only addresses
    to plan; None for all. `declared`: whether manifests that were not given hold a record's resource.
    `moved`: which of them says that an address was left; "" for none. None: all manifests were given.
    """

    resources: Sequence[Resource]
    diagnostics: tuple[Diagnostic, ...] = ()
    selected: Callable[[StateRecord], bool] = lambda record: True
    policies: Sequence[Resource] = ()
    focus: Collection[Address] | None = None
    declared: Callable[[StateRecord], bool] = lambda record: True
    moved: Callable[[Address], str] | None = None


async def read_all(
    project: Project, reads: Sequence[Read], on_answer: Callable[[Read, Observation], None]
) -> None:
    await observe(project.services, reads, on_answer, clock=project.clock, reporter=project.reporter)
