"""Reads platform and providers: each GET once, many at a time, each answer passed on as it comes."""

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
from reconciler.services.client import Client
from reconciler.services.registry import Budget, RateKey, Services, rate_key
from reconciler.services.retry import fails

MOST_STARTED = 512  # reads; most of them wait for their turn, or to be tried again


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
    """Call `on_answer` for each read, in no certain order, with `at_once` requests at a time.

    Paths must be plain text. The reads are added to `budget`; if they must wait for rate limits, the reporter
    says so before the first one. A read that fails gets an incomplete observation. `about`: the addresses
    that a read is about, for the one diagnostic of an outage.

    Raises Unauthorized if an essential service refuses the token (401), and Refused if it is plainly down or
    has answered no read at all: then no other answer would mean anything.
    """
    keys = [rate_key(services, read.service, "GET", read.path) for read in reads]
    if note := budget.add(services, keys):
        reporter.note(note)
    waiting = iter(_by_turn(reads, keys))
    slots = anyio.CapacityLimiter(at_once)
    done = 0
    began_s = clock.monotonic()
    failed = list[_Failed]()  # by an essential service
    unanswered = dict.fromkeys(reads)
    fatal: ReconcilerError | None = None

    async def work(scope: anyio.CancelScope) -> None:
        """Answer reads until none is left, or one fails so that the run must end."""
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
        for _ in range(min(MOST_STARTED, len(reads))):
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
        for failure in failed:
            by_cause[failure.cause].append(failure)
        raise _refused([_outage(cause, reads) for cause, reads in sorted(by_cause.items())])


class _Failed(Struct, frozen=True):
    """A read that failed for a reason that concerns others, too, and the addresses that it is about."""

    cause: str
    problem: str
    addresses: tuple[Address, ...]


def _outage(what: str, reads: Sequence[_Failed]) -> Diagnostic:
    """The one diagnostic for `reads`, which all failed because of `what`."""
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


def _by_turn(reads: Sequence[Read], keys: Sequence[RateKey]) -> Sequence[Read]:
    """`reads` in the order in which the limits allow them: first one of each key, then a second one."""
    before: Counter[RateKey] = Counter()
    rounds = []
    for key in keys:
        rounds.append(before[key])
        before[key] += 1
    return [read for _, read in sorted(zip(rounds, reads, strict=True), key=itemgetter(0))]


async def _answer(
    services: Services, read: Read, clock: Clock, slots: AbstractAsyncContextManager[object]
) -> Observation:
    """The observation of `read`: its answer, or an incomplete one with the reason.

    Raises failures that end the run, because no other answer would mean anything.
    """
    try:
        return await services.read(read, slots)
    except ReconcilerError as error:
        failure = error
    problem, cause, is_complete = failure.message, "", False
    match failure:
        case AppMissing():
            problem += " (a new app can take some seconds to appear)"
        case NotFound():
            # Of a single object, "not found" is the answer; of a list, it says nothing about its objects.
            is_complete = not read.shape.many
        case NoSuchService():
            problem += f": {failure.help}"
        case Unauthorized(status=status):
            if status == 401 and services.of(read.service).service.essential:
                raise failure
            problem += f" ({failure.help})"
        case PlatformError() | Refused():
            client = services.of(read.service)
            if isinstance(failure, Down) and client.service.essential:
                raise failure
            cause = _common_cause(client, failure)
        case _:
            raise failure
    return Observation((), complete=is_complete, at=clock.now(), problem=problem, cause=cause)


def _common_cause(client: Client, failure: PlatformError | Refused) -> str:
    """Why the service or its connections fail; "" if only this read fails."""
    if isinstance(failure, Down):
        return f"{client.label} gives no valid answer"
    if isinstance(failure, PlatformError) and fails(failure.status):
        return f"{client.label} answers {failure.status}"
    if isinstance(failure.__cause__, TransportError):
        return f"{client.label} at {client.address} gives no answer"
    return ""
