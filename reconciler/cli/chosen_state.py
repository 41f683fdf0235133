"""The state that a verb of `reconcile state` is about, and who works on it."""

import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from reconciler.cli.progress import make_reporter
from reconciler.cli.signals import run
from reconciler.state.spooling import Spooling
from reconciler.state.store import State

if TYPE_CHECKING:
    from reconciler.core.attribution import Attribution
    from reconciler.pipeline.actor import Actor

T = TypeVar("T")


class ChosenState:
    """What the options `--env`, `--state`, `--sandbox` and `--reason` name. Reads the settings."""

    def __init__(self, env: str, state_url: str | None, sandbox: bool, reason: str = "") -> None:
        from reconciler.cli.sources import settings_here

        self.config = settings_here(env, sandbox=sandbox)
        self.url = state_url or self.config.settings.state_url
        self.reporter = make_reporter()
        self._reason = reason

    @property
    def place(self) -> str:
        """Its URL, for people."""
        from reconciler.core.state_url import shown_url

        return shown_url(self.url)

    @property
    def by(self) -> "Attribution":
        """Who decides, and why, for the journal."""
        from reconciler.pipeline.attribution import attribution_of

        return attribution_of(self.config, self._reason)

    def actor(self, lock_timeout: float = 0.0, *, run: str | None = None) -> "Actor":
        """`run`: the id of the decision in the journal; None: a new one."""
        from reconciler.core.clock import SystemClock
        from reconciler.pipeline.actor import Actor
        from reconciler.pipeline.attribution import holder

        id = uuid.uuid4().hex if run is None else run
        return Actor(SystemClock(), holder(), self.by, id, lock_timeout, self.reporter)

    def load(self) -> State:
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
        from reconciler.pipeline.identity import refuse_missing
        from reconciler.pipeline.open import open_state

        async def main() -> T:
            async with open_state(
                self.config, self.url, environment=environment, pinned=pinned, tell=self.reporter.note
            ) as store:
                if existing:
                    refuse_missing(await store.load(), self.place)
                return await work(store)

        return run(main)
