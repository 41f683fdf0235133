"""From what became of a run's calls to the fault script of a sandbox that makes it happen again. Pure."""

import glob
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reconciler.evidence.calls import SentCall

HELD_S = 24 * 3600  # an answer that does not come before the run is dead
_FOR_EVER_S = 3600  # a Retry-After that no step waits for
_MOST_S = 15  # that a step, which was tried again, is asked to wait: it had other reasons to wait longer
_AT_ONCE_S = 1.0
_PASS: Mapping[str, Any] = {"action": "delay", "delay_s": 0}  # nothing happens to this call
_LIMITED = 429


def guesses(calls: Sequence[SentCall]) -> list[int]:
    """The calls of which the journal does not tell whether they took effect, by their place."""
    return [
        place
        for place, call in enumerate(calls)
        if (call.end in ("unknown", "open") and call.landed is None)
        or (call.end == "not-landed" and call.if_unknown == "repeat")
    ]


def script(calls: Sequence[SentCall], flipped: Collection[int] = ()) -> list[dict[str, Any]]:
    """One fault for each call in the order of sending, until the last one that met anything.

    `flipped`: the places of calls whose effect is guessed the other way round.
    """
    made = {call.id for call in calls if call.id}
    found = []
    for place, call in enumerate(calls):
        landed = bool(call.landed) != (place in flipped)
        met = _met(call, landed=landed)
        found.append({"method": call.method, "path": _pattern(call.path, made), **(met or _PASS)})
    while found and found[-1].items() >= _PASS.items():
        found.pop()
    return found


def _met(call: SentCall, *, landed: bool) -> Mapping[str, Any] | None:
    if call.end == "open":
        return {"action": "delay", "delay_s": HELD_S, "before": not landed}
    if call.status == _LIMITED:
        wait_s = _FOR_EVER_S if call.paused_s is None else min(max(1, round(call.paused_s)), _MOST_S)
        return {"action": "rate_limited", "retry_after": wait_s}
    if call.status:
        body = {} if call.status < 300 else {"error": call.why}
        return {"action": "status", "status": call.status, "after": landed, "body": body}
    if call.end == "done" and not call.why:
        return None
    took_s = (call.ended_at - call.sent_at).total_seconds() if call.ended_at is not None else 0.0
    if landed and call.end != "done" and took_s > _AT_ONCE_S:
        return {"action": "delay", "delay_s": math.ceil(took_s) + 1}
    return {"action": "drop_after" if landed else "drop_before"}


def _pattern(path: str, made: Collection[str]) -> str:
    """`path`, where the ids of what the run made are not known beforehand."""
    return "/".join("*" if part in made else glob.escape(part) for part in path.split("/"))
