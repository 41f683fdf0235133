"""What a verb reads of the state alone, and the context that its report says."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from reconciler.cli.signals import run

if TYPE_CHECKING:
    from reconciler.core.context import Context
    from reconciler.state.spooling import Spooling

T = TypeVar("T")


def with_state(
    env: str, state_url: str | None, sandbox: bool, work: "Callable[[Spooling], Awaitable[T]]"
) -> "tuple[T, Context]":
    """What `work` returns, and what it is about. Raises Refused where there is no state."""
    from reconciler.cli.progress import make_reporter
    from reconciler.cli.sources import settings_here
    from reconciler.core.clock import SystemClock
    from reconciler.core.context import EMBEDDED
    from reconciler.core.state_url import shown_url
    from reconciler.pipeline.context import make_context
    from reconciler.pipeline.desired import origin_here
    from reconciler.pipeline.identity import refuse_missing
    from reconciler.pipeline.open import open_state

    config = settings_here(env, sandbox=sandbox)
    place = shown_url(state_url or config.settings.state_url)

    async def main() -> "tuple[T, Context]":
        async with open_state(config, state_url, read_only=True, tell=make_reporter().note) as store:
            state = await store.load()
            refuse_missing(state, place)
            platform = EMBEDDED if sandbox else state.platform or config.settings.platform.base_url
            now = SystemClock().now()
            context = make_context(config.env, platform, place, origin_here(config), state.lineage, now)
            return await work(store), context

    return run(main)
