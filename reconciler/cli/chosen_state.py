"""The state that `--env`, `--state` and `--sandbox` choose, and the person who works on it."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from reconciler.approvals.in_force import agents_of
from reconciler.cli.command_line import settings_here
from reconciler.cli.event_loop import run
from reconciler.cli.group import ENV, SANDBOX, STATE
from reconciler.cli.options import ChosenManifests
from reconciler.core.clock import SystemClock
from reconciler.core.context import EMBEDDED, Attribution, Context, make_context
from reconciler.core.errors import ReconcilerError, Refused
from reconciler.core.model import Resource
from reconciler.core.state_url import shown_url
from reconciler.execution.decisions import Actor
from reconciler.project.attribution import attribution_of, holder
from reconciler.project.desired import origin_here
from reconciler.project.identity import refuse_missing
from reconciler.project.open import Options, begin_work, open_project
from reconciler.project.project import Project
from reconciler.project.settings import ProjectSettings
from reconciler.project.store import Opening, open_state
from reconciler.state.spooling import Spooling
from reconciler.state.store import State

T = TypeVar("T")


@dataclass  # mutable, as its base class
class ChosenState(ChosenManifests):
    """Values of the shared options, and the state and the project that they lead to."""

    OPTIONS = (SANDBOX, STATE, ENV)
    state_url: str | None = None
    sandbox: bool = False
    lock_timeout: float = 0.0
    reason: str = ""

    @cached_property
    def config(self) -> ProjectSettings:
        """The settings of the chosen environment, or of the embedded sandbox."""
        return settings_here(self.env, ref=self.ref, untrusted=self.untrusted, sandbox=self.sandbox)

    @property
    def url(self) -> str:
        """The URL of the state, which may hold credentials."""
        return self.state_url or self.config.settings.state_url

    @property
    def place(self) -> str:
        """The URL of the state, without credentials."""
        return shown_url(self.url)

    @property
    def by(self) -> Attribution:
        """The person who decides, and the reason, for the journal."""
        return attribution_of(self.config, self.reason)

    def actor(self, *, run: str | None = None) -> Actor:
        """The person as the author of a decision. `run`: its id in the journal; None: a new one."""
        id = uuid.uuid4().hex if run is None else run
        return Actor(SystemClock(), holder(), self.by, id, self.lock_timeout, self.reporter)

    def context(self, state: State) -> Context:
        """The first lines of a report about this state."""
        platform = EMBEDDED if self.sandbox else state.platform or self.config.settings.platform.base_url
        origin, now = origin_here(self.config), SystemClock().now()
        return make_context(self.config.env, platform, self.place, origin, state.lineage, now)

    def require_person(self, verb: str) -> None:
        """Raises Refused where an agent runs, as the settings say, or the rules that the state remembers."""
        if self.sandbox:
            return  # nothing of it is real
        opening = Opening(self.state_url, read_only=True)

        async def remembered() -> State:
            async with open_state(self.config, opening) as store:
                return await store.load()

        agents = agents_of(self.config)
        if not agents:
            with suppress(ReconcilerError):  # the verb itself says what is wrong with the state
                agents = agents_of(self.config, run(remembered))
        if agents:
            raise Refused(
                f"an agent runs this (`{agents[0]}` is set), and `{verb}` is for people; nothing was changed",
                help="a person decides this, in a shell of their own; an agent can save a plan for them to "
                "approve (`reconcile explain agents`)",
            )

    def load(self) -> State:
        """The whole state. Raises Refused where there is none."""
        return self.use(lambda store: store.load())

    def use(
        self,
        work: Callable[[Spooling], Awaitable[T]],
        *,
        environment: str | None = None,
        existing: bool = True,
        pinned: bool = True,
    ) -> T:
        """What `work` returns. `environment`: whose state it is, instead of the chosen environment's.

        Raises Refused where there is no state, unless it need not be `existing`, and where it is another one
        than the settings pin, unless it need not be `pinned`.
        """
        opening = Opening(self.state_url, environment, tell=self.reporter.note)

        async def main() -> T:
            async with open_state(self.config, opening) as store:
                state = await begin_work(self.config, store, opening, pinned=pinned)
                if existing:
                    refuse_missing(state or await store.load(), self.place)
                return await work(store)

        return run(main)

    def read(self, work: Callable[[Spooling], Awaitable[T]]) -> tuple[T, Context]:
        """What `work` returns, and what it is about; no file is changed. Raises Refused where no state is."""
        opening = Opening(self.state_url, read_only=True, tell=self.reporter.note)

        async def main() -> tuple[T, Context]:
            async with open_state(self.config, opening) as store:
                state = await begin_work(self.config, store, opening) or await store.load()
                refuse_missing(state, self.place)
                return await work(store), self.context(state)

        return run(main)

    def project(
        self,
        resources: Sequence[Resource] = (),
        policies: Sequence[Resource] = (),
        *,
        read_only: bool = True,
        base: str = "",
    ) -> AbstractAsyncContextManager[Project]:
        """The open project, as from `open_project`."""
        chosen = Options(
            self.state_url,
            self.lock_timeout,
            read_only=read_only,
            reason=self.reason,
            base=base,
        )
        return open_project(self.config, chosen, self.reporter, resources, policies)

    def use_project(
        self,
        work: Callable[[Project], Awaitable[T]],
        resources: Sequence[Resource] = (),
        policies: Sequence[Resource] = (),
    ) -> T:
        """The result of `work` on the project, which is only read."""

        async def main() -> T:
            async with self.project(resources, policies) as project:
                return await work(project)

        return run(main)
