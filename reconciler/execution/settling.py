"""Settles an unknown outcome by evidence: objects that the platform's list shows now, and did not before.

After the settle window a lost call can no longer take effect. Then one new object that equals the sent one,
and that no record owns, is taken if `adopt_inferred` allows it. If three lists in a row show none, the call
had no effect and may be sent again. Anything else is a question to a person: neither taken nor sent again.
"""

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.clock import Clock, sleep_telling
from reconciler.core.errors import Down, PlatformError, TransportError
from reconciler.core.lookup import matching, possible
from reconciler.core.model import Observation
from reconciler.core.steps import FOUND_ID, Read
from reconciler.execution.intents import Intent
from reconciler.execution.limits import Limits
from reconciler.execution.outputs import Outputs, fill_path
from reconciler.services.registry import Services

LISTS_WITHOUT_A_TRACE = 3  # so many spaced lists must agree that nothing landed
BETWEEN_LISTS_S = 5.0
DATE_IS_WITHIN_S = 1.0  # a Date header has whole seconds


class Settlement(Struct, frozen=True):
    """The answer to an unknown outcome: `landed` with the object's `id`, `not_landed`, or `undecided`.

    `why`: the reason of `undecided`, for people. `unread`: undecided only because the platform could not be
    read, so that a later read may decide.
    """

    kind: Literal["landed", "not_landed", "undecided"]
    id: str = ""
    why: str = ""
    unread: bool = False


def candidates(intent: Intent, objects: Sequence[Any], tracked: Collection[str]) -> list[Any]:
    """The objects that the call may have made: new since the baseline, and in no record."""
    return [
        item
        for item in possible(intent.match or {}, objects)
        if item.present and item.id not in intent.baseline and item.id not in tracked
    ]


def judge(intent: Intent, found: Sequence[Any], limits: Limits) -> Settlement:
    """The settlement that the candidates prove.

    An object that is already attached may still be ours: it is neither taken nor ignored, nor is one that is
    smaller than what was sent. A snapshot may be taken on evidence alone: any snapshot of its volume will do.
    So may a drill's object, whose name is given once.
    """
    if not found:
        return Settlement("not_landed")
    may_infer = limits.adopt_inferred or not intent.creates or intent.lifecycle.scratch
    if len(found) == 1 and may_infer and matching(intent.match or {}, found) and _is_free(intent, found[0]):
        return Settlement("landed", found[0].id)
    return _undecided(item.id for item in found)


def _undecided(ids: Iterable[str]) -> Settlement:
    return Settlement("undecided", why=f"it may have created one of these: {', '.join(sorted(ids))}")


def _is_free(intent: Intent, item: Any) -> bool:
    """Whether the object has a valid id, is attached to nothing, and has all that was sent."""
    less = any(
        isinstance(sent := intent.applied.get(name), int) and (getattr(item, name, None) or sent) < sent
        for name in intent.grows
    )
    return not item.bad_id and not less and not any(getattr(item, name, None) for name in intent.unattached)


async def look(
    intent: Intent,
    read_list: Callable[[Read], Awaitable[Observation]],
    services: Services,
    tracked: Callable[[], Collection[str]],
    limits: Limits,
) -> Settlement:
    """The settlement after one list. If the list may lag behind, the object is also read by its id."""
    assert intent.find is not None
    try:
        observation = await read_list(intent.find)
        settlement = judge(intent, candidates(intent, observation.objects, tracked()), limits)
        if settlement.kind == "landed" and intent.one is not None:
            found = Outputs()
            found.put(FOUND_ID.source, {FOUND_ID.path: settlement.id})
            read = replace(intent.one, path=fill_path(intent.one.path, found))
            (item,) = (await services.read(read)).objects
            if not (item.present and matching(intent.match or {}, [item]) and _is_free(intent, item)):
                return _undecided([settlement.id])
            if settlement.id in tracked():  # meanwhile
                return Settlement("not_landed")
    except PlatformError as failure:
        why = f"the platform could not be read: {failure.message}"
        down = failure.status >= 500 or isinstance(failure.__cause__, TransportError)
        return Settlement("undecided", why=why, unread=down or isinstance(failure, Down))
    return settlement


def left_of_window(
    intent: Intent, sent_at: datetime, clock: Clock, services: Services, settle_s: float
) -> float:
    """Seconds until a call sent at `sent_at` can no longer take effect; 0 after that, `settle_s` at most.

    Our clock may have jumped since, or the service's: if both times are known, the shorter one that has
    passed counts.
    """
    passed_s = (clock.now() - sent_at).total_seconds()
    now = services.time(intent.service)
    if intent.service_at is not None and now is not None:
        passed_s = min(passed_s, (now - intent.service_at).total_seconds() + DATE_IS_WITHIN_S)
    left_s = settle_s - passed_s
    return min(max(0.0, left_s), settle_s)


class Evidence:
    """The evidence for all lost calls of one run, and the objects that are already assigned to one of them.

    Lists are read at common moments, so that one list serves all lost calls that wait for it. `tracked`: the
    ids that records contain now.
    """

    def __init__(self, clock: Clock, limits: Limits, tracked: Callable[[], Collection[str]]) -> None:
        self._clock = clock
        self._limits = limits
        self._recorded = tracked
        self._taken: set[str] = set()
        self._asked: dict[Read, _SharedList] = {}
        self._reading: dict[Read, anyio.Lock] = defaultdict(anyio.Lock)

    async def settle(
        self,
        intent: Intent,
        sent_at: datetime,
        services: Services,
        *,
        tell: Callable[[float], None],
        least_s: float = 0.0,
    ) -> Settlement:
        """Settle a call with a lost reply, after the settle window and `least_s` have passed.

        No other lost call can then get the same object. `tell` gets the seconds that are left, at once and
        every `TELL_EVERY_S`, and 0 at the end.
        """
        if intent.if_unknown != "find" or intent.find is None:
            return Settlement("undecided", why="the platform documents no call that shows its outcome")
        settle_s, began_s = self._limits.settle_s, self._clock.monotonic()

        def left() -> float:
            """Seconds left of the settle window, minus the time that was already waited here."""
            left_s = left_of_window(intent, sent_at, self._clock, services, settle_s)
            return max(0.0, min(left_s, settle_s - (self._clock.monotonic() - began_s)))

        left_s = max(left(), least_s)
        tell(left_s)
        try:
            await sleep_telling(self._clock, left_s, tell)
            return await self._by_lists(intent, services, left, tell)
        finally:
            tell(0.0)

    async def _by_lists(
        self,
        intent: Intent,
        services: Services,
        left: Callable[[], float],
        tell: Callable[[float], None],
    ) -> Settlement:
        """Read lists, one after another, until one gives a clear settlement.

        `left`: seconds of the window. The first answer of a run may show that more is left than our clock
        says: then that list does not count.
        """
        settlement, lists = Settlement("not_landed"), 0
        asked = services.time(intent.service) is not None
        while lists < LISTS_WITHOUT_A_TRACE:
            await self._clock.sleep(self._until_the_next_moment())
            settlement = await look(
                intent, partial(self._list, services), services, self._tracked, self._limits
            )
            if not asked and (left_s := left()):
                asked = True
                tell(left_s)
                await sleep_telling(self._clock, left_s, tell)
                continue
            asked, lists = True, lists + 1
            if settlement.kind == "landed":
                self._taken.add(settlement.id)
            if settlement.kind != "not_landed":
                return settlement
        return settlement

    def _tracked(self) -> Collection[str]:
        """The ids of records, and of objects that this run has assigned to lost calls."""
        return {*self._recorded(), *self._taken}

    def _until_the_next_moment(self) -> float:
        """Seconds until lists are read again."""
        every_s = min(self._limits.settle_s, BETWEEN_LISTS_S)
        if not every_s:
            return 0.0
        now_s = self._clock.monotonic()
        return (math.floor(now_s / every_s + 1e-6) + 1) * every_s - now_s

    async def _list(self, services: Services, read: Read) -> Observation:
        """Read one list for all callers that ask before it starts; an earlier list may show less."""
        asked = self._asked.get(read)
        if asked is not None:
            await asked.over.wait()
        else:
            asked = self._asked[read] = _SharedList()
            async with self._reading[read]:
                await checkpoint()
                del self._asked[read]
                try:
                    asked.answer = await services.read(read)
                except PlatformError as failure:
                    asked.answer = failure
                finally:
                    asked.over.set()
        if isinstance(asked.answer, PlatformError):
            raise asked.answer
        return asked.answer


class _SharedList:
    """A list that several callers wait for, and its result."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.answer: Observation | PlatformError = PlatformError("interrupted")
