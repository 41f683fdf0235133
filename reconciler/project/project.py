"""What every verb that asks the platform works with: the doors to the outside."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.approvals.rules import NO_RULES, Authority
from reconciler.core.clock import Clock
from reconciler.core.context import UNATTRIBUTED, Attribution, Context, Origin, make_context
from reconciler.core.model import Address, Observation
from reconciler.core.reporter import Reporter
from reconciler.core.steps import PLATFORM, Read
from reconciler.execution.decisions import Actor
from reconciler.execution.limits import Limits
from reconciler.execution.open_intents import settle_open
from reconciler.execution.settling import Settlement
from reconciler.project.settings import ProjectSettings
from reconciler.secrets.sources import Sources
from reconciler.services.client import Client
from reconciler.services.observe import observe
from reconciler.services.registry import Budget, Services
from reconciler.state.spooling import Spooling
from reconciler.state.store import State


@dataclass(frozen=True, slots=True)
class Project:
    """What a verb needs from outside. `new_id`: ids of plans and runs; `holder`: this process, for people.
    `by`: who runs it and why, for the journal.

    `providers`: those that the manifests declare, by name. `environment`: the chosen one; "" for the base.
    `environments`: the settings by which the states of others are found; None where there are no others.
    `address`, `state_url`: of the platform and the state, as reports name them. `trusted`: the revision of
    `providers`, with --untrusted. `budget`: of the requests of this verb. `authority`: which changes need an
    approval, and of whom. `variables`: of the run, for the programs that judge an approval.
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
    by: Attribution = UNATTRIBUTED
    lock_timeout_s: float = 0.0
    providers: Mapping[str, Client] = field(default_factory=dict)
    environment: str = ""
    address: str = ""
    state_url: str = ""
    own_state: bool = False  # whether the state is surely this project's: by its pin, or as the sandbox's own
    trusted: str = ""
    environments: ProjectSettings | None = None
    authority: Authority = NO_RULES
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    budget: Budget = field(default_factory=Budget)

    @property
    def services(self) -> Services:
        return Services({**self.providers, PLATFORM: self.platform}, self.trusted)

    def actor(self, run: str = "") -> Actor:
        """Who decides here. `run`: the id of the decision in the journal."""
        return Actor(self.clock, self.holder, self.by, run, self.lock_timeout_s, self.reporter)

    def context(self, origin: Origin, lineage: str) -> Context:
        """What a report about manifests of this origin, made now with the state `lineage`, is about."""
        return make_context(self.environment, self.address, self.state_url, origin, lineage, self.clock.now())


async def settle_left(
    project: Project, state: State, concerned: Callable[[State], Collection[str]]
) -> Mapping[Address, Settlement]:
    """See `settle_open`."""
    return await settle_open(
        project.store,
        state,
        services=project.services,
        clock=project.clock,
        reporter=project.reporter,
        limits=project.limits,
        holder=project.holder,
        timeout_s=project.lock_timeout_s,
        concerned=concerned,
    )


async def read_all(
    project: Project,
    reads: Sequence[Read],
    on_answer: Callable[[Read, Observation], None],
    about: Callable[[Read], Iterable[Address]] = lambda read: (),
) -> None:
    """See `observe`."""
    await observe(
        project.services,
        reads,
        on_answer,
        clock=project.clock,
        reporter=project.reporter,
        about=about,
        at_once=project.limits.read_concurrency,
        budget=project.budget,
    )
