"""Decides when a call may be sent: by slots, by turns, and by earlier answers of the service.

A call holds a slot only while it is being sent. It holds none while it waits for its turn, for evidence, for
the time that the service asks for, or until an outcome is stored.
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
from reconciler.services.client import Client
from reconciler.services.outcome import Outcome, Verdict

LOST_IN_A_ROW = 3  # unknown outcomes after which nothing new is created: any of them may become a question
RATE_LIMIT_S = 60.0  # how long one step tries again after 429
FIRST_PAUSE_S = 1.0  # if the service does not say how long to wait; doubled after every attempt
LEAST_PAUSE_S = 0.5
OUTAGE_S = 60.0  # of failed requests only: then calls and waits are left to the next apply


class CallNotSent(ReconcilerError):
    """A call that was not sent, because of the answers to other calls."""


class NotOpen(CallNotSent):
    """A call that was not sent, because of the hour. A later run sends it."""


@dataclass(slots=True)
class _Creates:
    """The creates of one service. `under_way`: calls without an answer yet.

    `lost`: unknown outcomes since the last clear one; `lost_creates` of them are of creates. `clear`: there
    was a clear outcome.
    """

    under_way: int = 0
    lost: int = 0
    lost_creates: int = 0
    clear: bool = False

    @property
    def may_start(self) -> bool:
        """Whether one more may be sent: before the first clear answer, no more than may get lost."""
        return (self.clear and not self.lost) or self.lost + self.under_way < LOST_IN_A_ROW

    @property
    def lost_calls(self) -> str:
        """The unknown calls in words: the creates, if they alone are enough to stop new ones."""
        if self.lost_creates >= LOST_IN_A_ROW:
            return counted(self.lost_creates, "create")
        return f"the last {counted(self.lost, 'call')}"


class RateLimited:
    """The 429s of one step. `since_s`: the time of the first one; None: there was none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times = 0
        self.since_s: float | None = None

    @property
    def for_s(self) -> float:
        """Seconds since the first 429."""
        return 0.0 if self.since_s is None else self._clock.monotonic() - self.since_s

    def pause_s(self, outcome: Outcome) -> float | None:
        """Seconds until the step is tried again; None: the time limit is reached."""
        if self.since_s is None:
            self.since_s = self._clock.monotonic()
        asked_s = outcome.retry_after_s
        pause_s = FIRST_PAUSE_S * 2**self._times if asked_s is None else max(asked_s, LEAST_PAUSE_S)
        self._times += 1
        return pause_s if self.for_s + pause_s <= RATE_LIMIT_S else None

    def why_given_up(self, outcome: Outcome) -> str:
        """Why the step is not tried again, after the time limit."""
        so_far = f" for {self.for_s:.0f} s" if round(self.for_s) else ""
        asked_s = outcome.retry_after_s
        asked = f", and the service asks to wait {asked_s:.0f} s{so_far and ' more'}" if asked_s else ""
        return f"refused with 429{so_far}{asked}; a step waits at most {RATE_LIMIT_S:.0f} s"


@dataclass(slots=True)
class _Unanswered:
    """The waits that an outage of one service ended. `first`: the last state that one of them saw."""

    label: str
    since: datetime
    first: str
    addresses: set[str] = field(default_factory=set)

    def notice(self) -> Diagnostic:
        """The one diagnostic for all waits that this outage ended."""
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


class SendGate:
    """The gate that all calls of one run pass. `halted`: why no call may start any more."""

    def __init__(self, concurrency: int, clock: Clock) -> None:
        self._clock = clock
        self._slots = anyio.CapacityLimiter(concurrency)
        self._creates: dict[str, _Creates] = defaultdict(_Creates)
        self._changed = anyio.Event()
        self._refused: dict[tuple[str, str], tuple[float, str]] = {}  # by service and action: seconds, reason
        self._credential = ""
        self._unanswered: dict[str, _Unanswered] = {}
        self.halted = ""

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
        """Wait for the turn of `call`, and hold a slot until the block ends or calls the yielded function.

        Raises CallNotSent if the call may not be sent any more. `creates`: sent twice, it would make two
        objects. `again`: it was refused with 429 before. `prepare`: runs just before the call, without a
        slot. `tell`: gets the seconds until its turn.
        """
        known = self._creates[client.name]

        async def ready() -> None:
            """Return with a slot, once nothing forbids the call. Raises CallNotSent if something does."""
            await prepare()
            while True:
                if why := self._why_not(client, call):
                    raise CallNotSent(f"not sent: {why}")
                if creates:
                    await self._until_creates_may_start(known)
                await self._slots.acquire()
                if not self._why_not(client, call) and (not creates or known.may_start):
                    return
                self._slots.release()

        await client.rate.wait(client.action(call), first=again, ready=ready, tell=tell)
        known.under_way += creates
        with ExitStack() as slot:
            slot.callback(self._end, known, creates)
            yield slot.close

    def _end(self, known: _Creates, creates: bool) -> None:
        """Free the slot, and wake those that wait for this answer."""
        known.under_way -= creates
        self._slots.release()
        self._wake_all()

    def answered(self, client: Client, outcome: Outcome, *, creates: bool = False) -> None:
        """Note the outcome of a call. `creates`: as in `turn`."""
        known = self._creates[client.name]
        if outcome.kind is Verdict.UNKNOWN:
            known.lost += 1
            known.lost_creates += creates
        else:
            known.lost, known.lost_creates, known.clear = 0, 0, True
        if outcome.status == 401:
            self.token_refused(client)

    def token_refused(self, client: Client) -> None:
        """Note a 401: if the service is essential, no other call starts."""
        if client.service.essential:
            self.halted = "the platform refused the token (401)"
            self._credential = client.credential

    def give_up(self, client: Client, call: Call, outcome: Outcome, why: str) -> None:
        """Note that `call` is not tried again after 429. No other call of its action is tried, either."""
        self._refused[client.name, client.action(call)] = outcome.retry_after_s or 0.0, why

    def unanswered(self, client: Client, address: Address, seen: str, silent_s: float) -> None:
        """Note that an outage of `silent_s` seconds ended the wait of `address`, which saw `seen` last."""
        since = self._clock.now() - timedelta(seconds=silent_s)
        known = self._unanswered.setdefault(client.name, _Unanswered(client.label, since, seen))
        known.since = min(known.since, since)
        known.addresses.add(str(address))

    def notices(self, done: int, total: int) -> Sequence[Diagnostic]:
        """Why calls were not sent: one diagnostic for each cause. `done` of `total` steps are done."""
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
        found += [outage.notice() for outage in self._unanswered.values()]
        return found

    def _why_not(self, client: Client, call: Call) -> str:
        """Why `call` must not be sent any more; "" if it may be sent."""
        if (client.name, client.action(call)) in self._refused:
            return "rate-limited: another call of its kind was refused with 429; run again"
        silent_s = client.breaker.silent_s
        if silent_s >= OUTAGE_S:
            return f"{client.label} has not answered for {silent_s:.0f} s; run again when it answers"
        return self.halted

    async def _until_creates_may_start(self, known: _Creates) -> None:
        """Wait for clear answers. Raises CallNotSent if none can come any more."""
        while not known.may_start:
            if not known.under_way:
                raise CallNotSent(
                    f"not sent: the outcomes of {known.lost_calls} are unknown, so nothing new is created; "
                    "run again"
                )
            await self._changed.wait()

    def _wake_all(self) -> None:
        """Let all waiting creates look again whether they may start."""
        self._changed.set()
        self._changed = anyio.Event()
