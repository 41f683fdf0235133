"""Reading platform and providers: each GET once, side by side, its answer handed on at once."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from operator import itemgetter

import anyio
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import (
    AppMissing,
    Down,
    NoSuchService,
    NotFound,
    PlatformError,
    ReconcilerError,
    Refused,
    TransportError,
    Unauthorized,
)
from reconciler.core.model import Address, Observation
from reconciler.core.reporter import Reporter
from reconciler.core.steps import Read
from reconciler.core.words import counted
from reconciler.services.budget import Budget, Line, line_of
from reconciler.services.client import Client
from reconciler.services.registry import Services
from reconciler.services.retry import fails

WAITING = 512  # reads that have begun: most of them wait for their turn, or to be tried again


async def observe(
    services: Services,
    reads: Sequence[Read],
    on_answer: Callable[[Read, Observation], None],
    *,
    clock: Clock,
    reporter: Reporter,
    about: Callable[[Read], Iterable[Address]] = lambda read: (),
    at_once: int,
    budget: Budget,
) -> None:
    """Answer every read, in no certain order, `at_once` requests at a time. Paths must be plain text.

    They are added to `budget`, and where they wait for limits, that is said before.

    A read that fails is answered by an incomplete observation. Raises Unauthorized when an essential
    service refuses the token itself (401), and Refused when it is plainly down or has answered no read at
    all: then no answer would mean anything. `about`: the addresses that a read is about, for the one
    diagnostic of an outage.
    """
    lines = [line_of(services, read.service, "GET", read.path) for read in reads]
    if told := budget.add(services, lines):
        reporter.note(told)
    waiting = iter(_by_turn(reads, lines))
    slots = anyio.CapacityLimiter(at_once)
    done = 0
    began_s = clock.monotonic()
    failed = list[_Failed]()  # by an essential service
    unanswered = dict.fromkeys(reads)
    fatal: ReconcilerError | None = None

    async def work(scope: anyio.CancelScope) -> None:
        nonlocal done, fatal
        for read in waiting:
            try:
                observation = await _answer(services, read, clock, slots)
            except ReconcilerError as failure:
                fatal = fatal or failure
                scope.cancel()
                return
            unanswered.pop(read, None)
            if observation.cause and services.of(read.service).service.essential:
                failed.append(_Failed(observation.cause, observation.problem, tuple(about(read))))
            on_answer(read, observation)
            done += 1
            reporter.observing(done, len(reads), clock.monotonic() - began_s)

    async with anyio.create_task_group() as group:
        for _ in range(min(WAITING, len(reads))):
            group.start_soon(work, group.cancel_scope)
    if isinstance(fatal, Down):
        rest = [_Failed("", fatal.message, tuple(about(read))) for read in unanswered]
        raise _refused([_outage(fatal.outage, [*rest, *failed])])
    if fatal is not None:
        raise fatal
    if failed and not any(
        client.has_answered for client in services.clients.values() if client.service.essential
    ):
        by_cause = defaultdict[str, list[_Failed]](list)
        for each in failed:
            by_cause[each.cause].append(each)
        raise _refused([_outage(cause, reads) for cause, reads in sorted(by_cause.items())])


class _Failed(Struct, frozen=True):
    """A read that failed for what concerns others too, and what it is about."""

    cause: str
    problem: str
    addresses: tuple[Address, ...]


def _outage(what: str, reads: Sequence[_Failed]) -> Diagnostic:
    """`what`: why all of `reads` failed."""
    addresses = tuple(sorted(str(address) for read in reads for address in read.addresses))
    concerned = f" of {counted(len(addresses), 'object')}" if addresses else ""
    problem = error(
        "platform-down",
        f"{what}: {counted(len(reads), 'read')}{concerned} failed",
        notes=(reads[0].problem,),
        help="nothing was changed; run again when it answers",
    )
    return replace(problem, addresses=addresses)


def _refused(outages: Sequence[Diagnostic]) -> Refused:
    return Refused("the platform answers no reads; nothing was changed", outages)


def _by_turn(reads: Sequence[Read], lines: Sequence[Line]) -> Sequence[Read]:
    """`reads` in the order in which the limits let them pass: the first of each line, then the second."""
    before: Counter[Line] = Counter()
    rounds = []
    for line in lines:
        rounds.append(before[line])
        before[line] += 1
    return [read for _, read in sorted(zip(rounds, reads, strict=True), key=itemgetter(0))]


async def _answer(
    services: Services, read: Read, clock: Clock, slots: AbstractAsyncContextManager[object]
) -> Observation:
    try:
        return await services.read(read, slots)
    except AppMissing as missing:
        problem = f"{missing.message} (a new app can take some seconds to appear)"
        return Observation((), complete=False, at=clock.now(), problem=problem)
    except NotFound as missing:
        # Of a single object, "not found" is the answer; of a list, it says nothing about its objects.
        return Observation((), complete=not read.shape.many, at=clock.now(), problem=missing.message)
    except Unauthorized as refused:
        if refused.status == 401 and services.of(read.service).service.essential:
            raise
        problem = f"{refused.message} ({refused.help})"
        return Observation((), complete=False, at=clock.now(), problem=problem)
    except NoSuchService as missing:
        problem = f"{missing.message}: {missing.help}"
        return Observation((), complete=False, at=clock.now(), problem=problem)
    except Down as outage:
        if services.of(read.service).service.essential:
            raise
        return _failed(services.of(read.service), outage, clock)
    except (PlatformError, Refused) as failure:
        return _failed(services.of(read.service), failure, clock)


def _failed(client: Client, failure: PlatformError | Refused, clock: Clock) -> Observation:
    """`cause`: where the service fails, or its connections, and not this read alone."""
    cause = ""
    if isinstance(failure, Down):
        cause = f"{client.label} gives no valid answer"
    elif isinstance(failure, PlatformError) and fails(failure.status):
        cause = f"{client.label} answers {failure.status}"
    elif isinstance(failure.__cause__, TransportError):
        cause = f"{client.label} at {client.address} gives no answer"
    return Observation((), complete=False, at=clock.now(), problem=failure.message, cause=cause)
