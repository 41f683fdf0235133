"""The doors to the outside for every verb that asks the platform."""

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
from reconciler.services.registry import Budget, Services, observe
from reconciler.state.spooling import Spooling
from reconciler.state.store import State


@dataclass(frozen=True, slots=True)
class Project:
    """The state, the platform and everything else that a verb needs from outside.

    `new_id`: gives ids of plans and runs; `holder`: this process, for people.
    `by`: who runs it and why, for the journal.

    `providers`: those that the manifests declare, by name. `environment`: the chosen one; "" for the base.
    `environments`: the settings by which the states of others are found; None where there are no others.
    `address`, `state_url`: of the platform and the state, as reports name them. `trusted`: the revision of
    `providers`, with --untrusted. `budget`: of the requests of this verb. `authority`: which changes need an
    approval, and of whom. `variables`: of the run, for the programs that judge an approval. `answers`: what
    was read, where all that is asked for is to be seen at the same moment; None where each asks anew.
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
    answers: dict[Read, Observation] | None = None

    @property
    def services(self) -> Services:
        """All services that calls may go to."""
        return Services({**self.providers, PLATFORM: self.platform}, self.trusted)

    def actor(self, run: str = "") -> Actor:
        """This process as the one that decides. `run`: the id of the decision in the journal."""
        return Actor(self.clock, self.holder, self.by, run, self.lock_timeout_s, self.reporter)

    def context(self, origin: Origin, lineage: str) -> Context:
        """The context of a report about manifests of this origin, made now with the state `lineage`."""
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
    """See `observe`. What `project.answers` has is not read again."""
    known = project.answers

    def answer(read: Read, observation: Observation) -> None:
        if known is not None:
            known[read] = observation
        on_answer(read, observation)

    seen = {read: known[read] for read in reads if read in known} if known else {}
    for read, observation in seen.items():
        on_answer(read, observation)
    await observe(
        project.services,
        [read for read in reads if read not in seen],
        answer,
        clock=project.clock,
        reporter=project.reporter,
        about=about,
        at_once=project.limits.read_concurrency,
        budget=project.budget,
    )
