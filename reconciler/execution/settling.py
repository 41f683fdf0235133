"""Settling an unknown outcome from evidence: what the platform's list shows now and did not before."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from reconciler.core.clock import Clock
from reconciler.core.errors import PlatformError
from reconciler.execution.intents import Intent
from reconciler.execution.limits import Limits
from reconciler.planning.match import matching, possible
from reconciler.services.registry import Services

LISTS_WITHOUT_A_TRACE = 3  # so many spaced lists must agree that nothing landed


@dataclass(frozen=True, slots=True)
class Settlement:
    """`landed` with the object's `id`; `not_landed`; or `undecided`, which `why` explains to a person."""

    kind: Literal["landed", "not_landed", "undecided"]
    id: str = ""
    why: str = ""


def candidates(intent: Intent, objects: Sequence[Any], tracked: Collection[str]) -> list[Any]:
    """Objects that the call may have made: new since the baseline and untracked."""
    return [
        item
        for item in possible(intent.match or {}, objects)
        if item.present and item.id not in intent.baseline and item.id not in tracked
    ]


def judge(intent: Intent, found: Sequence[Any], limits: Limits) -> Settlement:
    """What the candidates prove.

    One that somebody holds already may be ours all the same: neither to take, nor to be passed over.
    A snapshot may be taken on evidence alone: any one of its volume serves.
    """
    if not found:
        return Settlement("not_landed")
    may_infer = limits.adopt_inferred or not intent.creates
    free = [item for item in found if not any(getattr(item, name, None) for name in intent.unattached)]
    if len(found) == len(free) == 1 and may_infer and matching(intent.match or {}, found):
        return Settlement("landed", found[0].id)
    ids = ", ".join(sorted(item.id for item in found))
    return Settlement("undecided", why=f"these may be what it made: {ids}")


def left_of_window(sent_at: datetime, clock: Clock, settle_s: float) -> float:
    """Seconds until a call sent at `sent_at` can no longer take effect; 0 when that time is over.

    Never more than the whole window, whatever became of the clock since.
    """
    left_s = (sent_at + timedelta(seconds=settle_s) - clock.now()).total_seconds()
    return min(max(0.0, left_s), settle_s)


async def settle(
    intent: Intent,
    sent_at: datetime,
    *,
    services: Services,
    clock: Clock,
    limits: Limits,
    tracked: Callable[[], Collection[str]],
) -> Settlement:
    """What became of a call whose reply was lost, once the settle window has passed."""
    if intent.if_unknown != "find" or intent.find is None:
        return Settlement("undecided", why="the platform documents no way to find out")
    await clock.sleep(left_of_window(sent_at, clock, limits.settle_s))
    settlement = Settlement("not_landed")
    for attempt in range(LISTS_WITHOUT_A_TRACE):
        if attempt:
            await clock.sleep(min(limits.settle_s, 5.0))
        try:
            observation = await services.read(intent.find)
        except PlatformError as failure:
            return Settlement("undecided", why=f"the platform could not be read: {failure.message}")
        settlement = judge(intent, candidates(intent, observation.objects, tracked()), limits)
        if settlement.kind != "not_landed":
            return settlement
    return settlement
