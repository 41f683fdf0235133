"""Waits for the effect of a call: reads until a condition holds, or the deadline passes.

A wait that is not over leaves the step pending: its call was accepted, and the next run waits on without
sending it again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.errors import AppMissing, NotFound, NotYet, PlatformError, Unauthorized
from reconciler.core.steps import Condition, OutputRef, Wait
from reconciler.execution.outputs import Outputs, fill_path
from reconciler.execution.run import Run
from reconciler.execution.send_gate import OUTAGE_S
from reconciler.services.outcome import at_path

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Waited(Struct, frozen=True):
    """The end of a wait. `seen`: the last value of the awaited field. `live`: the object, once done.

    `watched`: an earlier read showed that the wait was not over. `silent_s`: how long all reads had failed,
    if that ended the wait.
    """

    ended: Literal["done", "failed", "pending"]
    seen: str
    live: Mapping[str, Any] | None = None
    watched: bool = False
    silent_s: float = 0.0


async def wait_for(
    run: Run,
    wait: Wait,
    *,
    reply: Any = None,
    baseline: Collection[str] = (),
    on_seen: Callable[[str, float], None] = lambda seen, waited_s: None,
) -> Waited:
    """Read until `wait` is over. `baseline`: items that were finished before the call, and do not count.

    A short failure of the platform does not end the wait; the deadline or a long outage does.
    """
    if wait.reply_path is not None and isinstance(reply, Mapping):
        live = at_path(reply, wait.reply_path)
        if isinstance(live, Mapping) and _judge(wait.until, live.get(wait.until.field)) == "done":
            return Waited("done", str(live.get(wait.until.field)), live)
    read = replace(wait.read, path=fill_path(wait.read.path, run.outputs))
    clock = run.clock
    started = clock.monotonic()
    seen, watched = "nothing yet", False
    silent_since: float | None = None
    for pause in _pauses(wait.every_s, immediately=reply is None):
        waited_s = clock.monotonic() - started
        if run.stopping or waited_s + pause > wait.timeout_s:
            return Waited("pending", seen)
        await clock.sleep(pause)
        asked_at = clock.monotonic()
        try:
            observation = await run.services.read(read)
        except Unauthorized:
            raise
        except PlatformError as failure:
            if wait.or_gone and isinstance(failure, NotFound) and not isinstance(failure, AppMissing):
                return Waited("done", "gone")
            seen = f"not {'there' if isinstance(failure, NotYet) else 'seen'} ({failure.message})"
            now = clock.monotonic()
            on_seen(seen, now - started)
            silent_since = (
                None if not failure.is_outage else asked_at if silent_since is None else silent_since
            )
            if silent_since is not None and now - silent_since >= OUTAGE_S:
                return Waited("pending", seen, silent_s=now - silent_since)
            continue
        silent_since = None
        found = _candidates(wait, run.outputs, observation.objects, baseline)
        if wait.or_gone and not found:
            return Waited("done", "gone")
        for item in found:
            seen = "there" if wait.or_gone else str(getattr(item, wait.until.field, None))
            verdict = _judge(wait.until, getattr(item, wait.until.field, None))
            if verdict != "pending":
                return Waited(verdict, seen, item.model_dump(), watched)
            watched = True
        on_seen(seen, clock.monotonic() - started)
    raise AssertionError("pauses never end")


def _candidates(wait: Wait, outputs: Outputs, objects: Any, baseline: Collection[str]) -> list[Any]:
    """The objects that the wait is about: the item that it names, or all that are new."""
    item = outputs.get(wait.item) if isinstance(wait.item, OutputRef) else wait.item
    if item is not None:
        return [live for live in objects if live.id == item]
    if wait.item is not None:
        return [live for live in objects if live.id not in baseline]
    return list(objects)


def _judge(until: Condition, value: Any) -> Literal["done", "failed", "pending"]:
    """Whether the condition holds, cannot hold any more, or may still come to hold. `value`: of its field."""
    if value in until.fails:
        return "failed"
    if until.at_least is not None:
        return "done" if isinstance(value, int) and value >= until.at_least else "pending"
    return "done" if value in until.any_of else "pending"


def _pauses(every_s: float, *, immediately: bool) -> Iterator[float]:
    """Seconds between reads: short at first, because most work is quick, then at most `LONGEST_PAUSE_S`.

    With `every_s`, the first read is at once, and all pauses are equal.
    """
    if immediately or every_s:
        yield 0
    while every_s:
        yield every_s
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
