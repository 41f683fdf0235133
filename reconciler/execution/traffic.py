"""When a call may be sent: slots, turns, and what earlier answers say about the service.

Only a call that is being sent holds a slot: waiting for a turn, for evidence, for the time that the service
asks for, or until an outcome is stored, does not.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.core.steps import Call
from reconciler.core.words import counted
from reconciler.execution.waiting import OUTAGE_S, Waited
from reconciler.services.client import Client
from reconciler.services.outcome import Outcome, Verdict

LOST_IN_A_ROW = 3  # so many unknown outcomes, and nothing new is created: each may become a question
RATE_LIMIT_S = 60.0  # how long one step tries again after 429
FIRST_PAUSE_S = 1.0  # where the service does not say how long to wait; then twice as long each time
LEAST_PAUSE_S = 0.5


class Unsent(ReconcilerError):
    """A call that was not sent, because of the answers to other calls."""


@dataclass(slots=True)
class _Creates:
    """Of one service. `lost`: unknown outcomes since the last clear one, `lost_creates` of them of creates.

    `clear`: there was a clear one.
    """

    under_way: int = 0
    lost: int = 0
    lost_creates: int = 0
    clear: bool = False

    @property
    def may_start(self) -> bool:
        """Before the first clear answer, no more calls may be in flight than may get lost."""
        return (self.clear and not self.lost) or self.lost + self.under_way < LOST_IN_A_ROW

    @property
    def told(self) -> str:
        """The unknown calls in words: the creates, if they alone are enough to stop new ones."""
        if self.lost_creates >= LOST_IN_A_ROW:
            return counted(self.lost_creates, "create")
        return f"the last {counted(self.lost, 'call')}"


class Limited:
    """How long one step has been refused with 429. `since_s`: of the first time; None: it was not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times = 0
        self.since_s: float | None = None

    @property
    def for_s(self) -> float:
        return 0.0 if self.since_s is None else self._clock.monotonic() - self.since_s

    def pause_s(self, outcome: Outcome) -> float | None:
        """Seconds until the step is tried again; None: the time limit is reached."""
        if self.since_s is None:
            self.since_s = self._clock.monotonic()
        asked_s = outcome.retry_after_s
        pause_s = FIRST_PAUSE_S * 2**self._times if asked_s is None else max(asked_s, LEAST_PAUSE_S)
        self._times += 1
        return pause_s if self.for_s + pause_s <= RATE_LIMIT_S else None

    def told(self, outcome: Outcome) -> str:
        """Why it is not tried again, after the time limit."""
        so_far = f" for {self.for_s:.0f} s" if round(self.for_s) else ""
        asked_s = outcome.retry_after_s
        asked = f", and the service asks to wait {asked_s:.0f} s{so_far and ' more'}" if asked_s else ""
        return f"refused with 429{so_far}{asked}; a step waits at most {RATE_LIMIT_S:.0f} s"


@dataclass(slots=True)
class _Unanswered:
    """The waits that an outage of one service ended. `first`: what one of them saw last."""

    label: str
    since: datetime
    first: str
    addresses: set[str] = field(default_factory=set)

    def notice(self) -> Diagnostic:
        apply = command("apply")
        again = f"when it answers, run `{apply}` again to wait for the rest"
        objects = counted(len(self.addresses), "object")
        problem = error(
            "wait-unanswered",
            f"{self.label} has not answered since {self.since:%Y-%m-%d %H:%M:%S} UTC: "
            f"this run no longer waits for {objects}",
            notes=(f"the first one: {self.first}",),
            help=f"accepted changes continue there; {again}",
            advice=(apply,),
        )
        return replace(problem, addresses=tuple(sorted(self.addresses)))


class Traffic:
    """All calls of one run."""

    def __init__(self, concurrency: int, clock: Clock) -> None:
        self._clock = clock
        self._slots = anyio.CapacityLimiter(concurrency)
        self._creates: dict[str, _Creates] = defaultdict(_Creates)
        self._changed = anyio.Event()
        self._refused: dict[tuple[str, str], tuple[float, str]] = {}  # how long to wait, and why
        self._credential = ""
        self._unanswered: dict[str, _Unanswered] = {}
        self.halted = ""  # why no call may start any more

    @asynccontextmanager
    async def turn(
        self,
        client: Client,
        call: Call,
        *,
        creates: bool,
        again: bool,
        prepare: Callable[[], Awaitable[None]],
        tell: Callable[[float], None],
    ) -> AsyncIterator[Callable[[], None]]:
        """Hold a slot when it is the turn of `call`, until the block ends or calls what comes back.

        Raises Unsent if it may not be sent any more.

        `creates`: made twice, there would be two. `again`: it was refused with 429 before. `prepare`: what
        has to be done just before, and needs no slot. `tell`: how long it still waits for its turn.
        """
        known = self._creates[client.name]

        async def ready() -> None:
            await prepare()
            while True:
                if why := self._says_no(client, call):
                    raise Unsent(f"not sent: {why}")
                if creates:
                    await self._until_creates_may_start(known)
                await self._slots.acquire()
                if not self._says_no(client, call) and (not creates or known.may_start):
                    return
                self._slots.release()

        await client.turn(call, first=again, ready=ready, tell=tell)
        known.under_way += creates
        with ExitStack() as slot:
            slot.callback(self._over, known, creates)
            yield slot.close

    def _over(self, known: _Creates, creates: bool) -> None:
        known.under_way -= creates
        self._slots.release()
        self._tell_all()

    def answered(self, client: Client, outcome: Outcome, *, creates: bool = False) -> None:
        """Note the outcome of a call. `creates`: see `turn`."""
        known = self._creates[client.name]
        if outcome.kind is Verdict.UNKNOWN:
            known.lost += 1
            known.lost_creates += creates
        else:
            known.lost, known.lost_creates, known.clear = 0, 0, True
        if outcome.status == 401:
            self.token_refused(client)

    def token_refused(self, client: Client) -> None:
        """No other call starts if nothing can be done without that service."""
        if client.service.essential:
            self.halted = "the platform refused the token (401)"
            self._credential = client.credential

    def give_up(self, client: Client, call: Call, outcome: Outcome, why: str) -> None:
        """`call` is not tried again after 429, and others of its action need not be tried."""
        self._refused[client.name, client.action(call)] = outcome.retry_after_s or 0.0, why

    def unanswered(self, client: Client, address: Address, waited: Waited) -> None:
        """The wait of `address` was ended by an outage."""
        since = self._clock.now() - timedelta(seconds=waited.silent_s)
        known = self._unanswered.setdefault(client.name, _Unanswered(client.label, since, waited.seen))
        known.since = min(known.since, since)
        known.addresses.add(str(address))

    def notices(self, done: int, total: int) -> Sequence[Diagnostic]:
        """Why calls were not sent, once for each cause. `done` of `total` steps of the run are."""
        apply = command("apply")
        again = f"then run `{apply}` again: finished steps are not sent again"
        found = []
        if self.halted:
            found.append(
                error(
                    "token-refused",
                    f"{self.halted}: {done} of {total} steps are done, and no other call was sent",
                    help=f"renew the token ({self._credential}), {again}",
                    advice=(apply,),
                )
            )
        if self._refused:
            wait_s, why = max(self._refused.values())
            until = f"{wait_s:.0f} s" if wait_s else "until the service accepts calls again"
            found.append(
                error(
                    "rate-limited",
                    f"calls were {why}: {done} of {total} steps are done",
                    help=f"wait {until}, {again}",
                    advice=(apply,),
                )
            )
        found += [each.notice() for each in self._unanswered.values()]
        return found

    def _says_no(self, client: Client, call: Call) -> str:
        """Why `call` must not be sent any more; "" when it may."""
        if (client.name, client.action(call)) in self._refused:
            return "rate-limited: another call of its kind was refused with 429; run again"
        if client.silent_s >= OUTAGE_S:
            return f"{client.label} has not answered for {client.silent_s:.0f} s; run again when it answers"
        return self.halted

    async def _until_creates_may_start(self, known: _Creates) -> None:
        while not known.may_start:
            if not known.under_way:
                raise Unsent(
                    f"not sent: the outcomes of {known.told} are unknown, so nothing new is created; "
                    "run again"
                )
            await self._changed.wait()

    def _tell_all(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
