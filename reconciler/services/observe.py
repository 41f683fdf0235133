"""Reading platform and providers: each GET once, side by side, its answer handed on at once."""

from collections.abc import Callable, Sequence

import anyio

from reconciler.core.clock import Clock
from reconciler.core.errors import (
    AppMissing,
    NoSuchService,
    NotFound,
    PlatformError,
    ReconcilerError,
    Unauthorized,
)
from reconciler.core.model import Observation
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Read
from reconciler.services.registry import Services

WORKERS = 16


async def observe(
    services: Services,
    reads: Sequence[Read],
    on_answer: Callable[[Read, Observation], None],
    *,
    clock: Clock,
    reporter: Reporter,
) -> None:
    """Answer every read, in no certain order. Paths must be plain text.

    A read that fails is answered by an incomplete observation. Raises Unauthorized when an essential
    service refuses the token itself (401): then no answer would mean anything.
    """
    waiting = iter(reads)
    done = 0
    fatal: ReconcilerError | None = None

    async def work(scope: anyio.CancelScope) -> None:
        nonlocal done, fatal
        for read in waiting:
            try:
                observation = await _answer(services, read, clock)
            except ReconcilerError as failure:
                fatal = fatal or failure
                scope.cancel()
                return
            on_answer(read, observation)
            done += 1
            reporter.observing(done, len(reads))

    async with anyio.create_task_group() as group:
        for _ in range(min(WORKERS, len(reads))):
            group.start_soon(work, group.cancel_scope)
    if fatal is not None:
        raise fatal


async def _answer(services: Services, read: Read, clock: Clock) -> Observation:
    try:
        return await services.read(read)
    except AppMissing as missing:
        problem = f"{missing.message} (a new app can take some seconds to appear)"
        return Observation((), complete=False, at=clock.now(), problem=problem)
    except NotFound as missing:
        # Of a single object, "not found" is the answer; of a list, it says nothing about its objects.
        return Observation((), complete=not read.shape.many, at=clock.now(), problem=missing.message)
    except Unauthorized as refused:
        if refused.status == 401 and services.of(read.service).service.essential:
            raise
        return Observation((), complete=False, at=clock.now(), problem=refused.message)
    except NoSuchService as missing:
        problem = f"{missing.message}: {missing.help}"
        return Observation((), complete=False, at=clock.now(), problem=problem)
    except PlatformError as failure:
        return Observation((), complete=False, at=clock.now(), problem=failure.message)
