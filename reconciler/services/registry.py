"""The services of a command: the clients that calls go through, how many requests they get, and their reads.

Each GET is sent once, many at a time, and each answer is passed on as it comes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
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
from reconciler.core.steps import PLATFORM, Call, Method, Plan, Read, Template
from reconciler.core.words import counted, in_words
from reconciler.services.client import UNBOUNDED, Client
from reconciler.services.rate import BURST
from reconciler.services.retry import fails

WORTH_TELLING_S = 2.0

RateKey = tuple[str, str]  # a service, and an action that its rate limit counts ("": it has no limit)


class Services(Struct, frozen=True):
    """The clients of all services, by the names that calls and reads give them.

    `trusted`: the git revision from which all providers are taken; "": they are those of the manifests.
    """

    clients: Mapping[str, Client]
    trusted: str = ""

    def of(self, name: str) -> Client:
        """Raises NoSuchService for a provider without a manifest."""
        if name not in self.clients and self.trusted:
            raise NoSuchService(
                f"there is no ExtensionProvider `{name}` at {self.trusted}",
                help="nothing is sent to a provider that only an untrusted change names: its extensions are "
                "planned once it is merged",
            )
        if name not in self.clients:
            raise NoSuchService(
                f"there is no ExtensionProvider `{name}` among the manifests",
                help=f"pass the manifest of ExtensionProvider/{name}, too: it has the provider's address, "
                "and says how to sign requests",
            )
        return self.clients[name]

    async def read(self, read: Read, slots: AbstractAsyncContextManager[object] = UNBOUNDED) -> Observation:
        """The answer of the service that `read` names. `slots`: see `Client.read`."""
        return await self.of(read.service).read(read, slots)

    def time(self, service: str) -> datetime | None:
        """See `Client.time`; None for an unknown service."""
        return self.clients[service].time() if service in self.clients else None


def providers_of(plan: Plan) -> Collection[str]:
    """The names of all providers that `plan` sends requests to, in the plan's order."""
    names = [step.call.service for step in plan.steps]
    names += [step.wait.read.service for step in plan.steps if step.wait is not None]
    names += [expected.read.service for expected in plan.expectations if expected.read is not None]
    names += [read.service for _, read in plan.inputs]
    return [name for name in dict.fromkeys(names) if name != PLATFORM]


def rate_key(services: Services, service: str, method: Method, path: str | Template) -> RateKey:
    """The key under which a rate limit counts a request."""
    client = services.clients.get(service)
    if client is None or client.rate.per_second is None:
        return service, ""
    return service, client.action(Call(method, _plain(path)))


def _plain(path: str | Template) -> str:
    """`path` with a name in the place of each value that an earlier answer will bring."""
    if isinstance(path, str):
        return path
    return "".join(part if isinstance(part, str) else str(part).replace("/", ":") for part in path.parts)


class Budget:
    """Counts the requests of a command, in groups: each group starts when the one before it is over.

    `limited_s`: seconds that the rate limits cost if answers come at once, and none is refused. `is_limited`:
    whether any of the requests has a limit.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.limited_s = 0.0
        self.is_limited = False
        self._full_s: dict[RateKey, float] = {}  # when a whole burst may go out again

    def add(self, services: Services, keys: Iterable[RateKey]) -> str:
        """Add a group. Returns a note about its time; "" if its limits cost less than `WORTH_TELLING_S`."""
        began_s, requests = self.limited_s, 0
        for key, number in Counter(keys).items():
            requests += number
            client = services.clients.get(key[0])
            if client is not None and client.rate.per_second is not None:
                self.is_limited = True
                full_s = max(self._full_s.get(key, 0.0), began_s) + number / client.rate.per_second
                self._full_s[key] = full_s
                self.limited_s = max(self.limited_s, full_s - BURST / client.rate.per_second)
        self.requests += requests
        takes_s = self.limited_s - began_s
        if takes_s < WORTH_TELLING_S:
            return ""
        return f"{requests:,} requests; the platform's limits allow them in about {in_words(takes_s)}"


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
        client.breaker.has_answered for client in services.clients.values() if client.service.essential
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
