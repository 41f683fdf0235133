"""Reading platform and providers: each GET once, side by side, its answer handed on at once."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing
from operator import itemgetter
from typing import NamedTuple

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
from reconciler.core.plural import counted
from reconciler.core.reporter import Reporter
from reconciler.core.steps import PLATFORM, Read
from reconciler.services.budget import Budget, Line, line_of
from reconciler.services.client import Client
from reconciler.services.registry import Services
from reconciler.services.retry import fails
from reconciler.services.transport import Answer

WAITING = 512  # reads that have begun: most of them wait for their turn, or to be tried again
WORTH_A_PROCESS = 200  # reads: to fork costs as much as some twenty of them


class Unchanged(NamedTuple):
    """Knows answers that leave everything as it is, of which it is enough that they came.

    `knows`: has no effect, for a second process may ask it. `take`: called instead of `on_answer`.
    """

    knows: Callable[[Read, Observation], bool]
    take: Callable[[Read], None]


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
    unchanged: Unchanged | None = None,
) -> None:
    """Answer every read, in no certain order, `at_once` requests at a time. Paths must be plain text.

    They are added to `budget`, and where they wait for limits, that is said before. With
    `unchanged`, a second process reads part of them where they are many.

    A read that fails is answered by an incomplete observation. Raises Unauthorized when an essential
    service refuses the token itself (401), and Refused when it is plainly down or has answered no read at
    all: then no answer would mean anything. `about`: the addresses that a read is about, for the one
    diagnostic of an outage.
    """
    lines = [line_of(services, read.service, "GET", read.path) for read in reads]
    if told := budget.add(services, lines):
        reporter.note(told)
    round = _Round(services, reads, on_answer, about, clock, reporter, at_once)
    if unchanged is not None and len(reads) >= WORTH_A_PROCESS:
        await round.run_beside(reads, lines, unchanged)
    left = [(read, line) for read, line in zip(reads, lines, strict=True) if read in round.unanswered]
    await round.run(_by_turn(left))
    round.judge()


class _Round:
    """One call of `observe`. `unanswered`: what is left to be read, in the order of `reads`."""

    def __init__(
        self,
        services: Services,
        reads: Sequence[Read],
        on_answer: Callable[[Read, Observation], None],
        about: Callable[[Read], Iterable[Address]],
        clock: Clock,
        reporter: Reporter,
        at_once: int,
    ) -> None:
        self.unanswered = dict.fromkeys(reads)
        self._total = len(reads)
        self._services = services
        self._on_answer = on_answer
        self._about = about
        self._clock = clock
        self._reporter = reporter
        self._at_once = at_once
        self._slots = anyio.CapacityLimiter(at_once)
        self._began_s = clock.monotonic()
        self._failed: list[_Failed] = []  # by an essential service
        self._fatal: ReconcilerError | None = None

    async def run(self, reads: Sequence[Read]) -> None:
        if self._fatal is not None:
            return
        waiting = iter(reads)
        self._slots = anyio.CapacityLimiter(self._at_once)
        async with anyio.create_task_group() as group:
            for _ in range(min(WAITING, len(reads))):
                group.start_soon(self._work, waiting, group.cancel_scope)

    async def run_beside(self, reads: Sequence[Read], lines: Sequence[Line], unchanged: Unchanged) -> None:
        """Two processes answer what they may of `reads`. `lines`: where each stands in line for a rate limit.

        Some are left unanswered if the second process comes to an early end.
        """
        from reconciler.services.beside import Beside, may_be_shared  # a small plan needs nothing of it

        reads = may_be_shared(self._services, reads, lines)
        if len(reads) < WORTH_A_PROCESS:
            return
        half = max(1, self._at_once // 2)
        self._slots = anyio.CapacityLimiter(half)
        platform = self._services.of(PLATFORM)
        with closing(Beside(platform, reads, unchanged.knows, at_once=half)) as second:
            waiting = second.take()
            async with anyio.create_task_group() as group:
                for _ in range(half):
                    group.start_soon(self._work, waiting, group.cancel_scope)
                async for read, answer in second.told():
                    if answer is None:
                        platform.answered(read)
                        unchanged.take(read)
                        self._done(read)
                    else:
                        group.start_soon(self._answer, read, group.cancel_scope, answer)

    async def _work(self, reads: Iterator[Read], scope: anyio.CancelScope) -> None:
        for read in reads:
            await self._answer(read, scope)

    async def _answer(self, read: Read, scope: anyio.CancelScope, first: Answer | None = None) -> None:
        try:
            observation = await _answer(self._services, read, self._clock, self._slots, first)
        except ReconcilerError as failure:
            self._fatal = self._fatal or failure
            scope.cancel()
            return
        if observation.cause and self._services.of(read.service).service.essential:
            self._failed.append(_Failed(observation.cause, observation.problem, tuple(self._about(read))))
        self._on_answer(read, observation)
        self._done(read)

    def _done(self, read: Read) -> None:
        self.unanswered.pop(read, None)
        done = self._total - len(self.unanswered)
        self._reporter.observing(done, self._total, self._clock.monotonic() - self._began_s)

    def judge(self) -> None:
        """Raises Unauthorized or Refused where no answer would mean anything."""
        if isinstance(self._fatal, Down):
            rest = [_Failed("", self._fatal.message, tuple(self._about(read))) for read in self.unanswered]
            raise _refused([_outage(self._fatal.outage, [*rest, *self._failed])])
        if self._fatal is not None:
            raise self._fatal
        if self._failed and not any(
            client.has_answered for client in self._services.clients.values() if client.service.essential
        ):
            by_cause = defaultdict[str, list[_Failed]](list)
            for each in self._failed:
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


def _by_turn(reads: Iterable[tuple[Read, Line]]) -> Sequence[Read]:
    """In the order in which the limits let them pass: the first of each line, then the second."""
    before: Counter[Line] = Counter()
    rounds = []
    for read, line in reads:
        rounds.append((before[line], read))
        before[line] += 1
    return [read for _, read in sorted(rounds, key=itemgetter(0))]


async def _answer(
    services: Services,
    read: Read,
    clock: Clock,
    slots: AbstractAsyncContextManager[object],
    first: Answer | None,
) -> Observation:
    try:
        return await services.read(read, slots, first)
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
