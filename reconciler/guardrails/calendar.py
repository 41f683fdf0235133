"""When windows are open, and what freezes hold: functions of a time that is given."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from reconciler.core.cron import first_after
from reconciler.core.model import Action, Impact, Waits
from reconciler.core.spans import parse_span
from reconciler.guardrails.limit import Limit

_MOST = 5000  # ends of what holds that are looked at, before nobody can tell when a change may go out


class _Held(NamedTuple):
    """What holds a change, and its first end; None: it has none."""

    by: Limit
    end: datetime | None
    zone: str = "UTC"


class Calendar:
    """The windows and freezes of one revision. Of several windows for one impact, one has to be open."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._windows: list[tuple[Limit, Any]] = []
        self._freezes: list[tuple[Limit, Any]] = []
        for limit in limits:
            (self._freezes if limit.kind == "Freeze" else self._windows).append((limit, limit.spec))

    def frozen(self, actions: Collection[Action], at: datetime) -> _Held | None:
        """The freeze that holds a change with these actions, whatever its impact; of several, the longest."""
        found = [
            _Held(limit, spec.ends)
            for limit, spec in self._freezes
            if spec.begins <= at < spec.ends and not {*actions} <= {*spec.exempt}
        ]
        return max(found, key=lambda held: held.end or at, default=None)

    def shut(self, impact: Impact, at: datetime) -> _Held | None:
        """The window for `impact` that opens first, where all of them are closed."""
        found = []
        for limit, spec in self._windows:
            if impact in spec.impacts:
                if _is_open(spec, at):
                    return None
                opens = _first_after(at, spec.opens, spec.timezone)
                found.append(_Held(limit, opens, spec.timezone))
        return min(found, key=lambda held: held.end or datetime.max.replace(tzinfo=UTC), default=None)


def waits(
    calendars: Sequence[Calendar],
    impact: Impact,
    actions: Collection[Action],
    at: datetime,
    *,
    stepped_over: bool = False,
) -> Waits | None:
    """What a change waits for at the time `at`, and until when; None: it may go out.

    All `calendars` have to let it. `stepped_over`: it need not wait for windows.
    """

    def held(at: datetime) -> list[_Held]:
        found = [freeze for calendar in calendars if (freeze := calendar.frozen(actions, at))]
        if not stepped_over:
            found += [window for calendar in calendars if (window := calendar.shut(impact, at))]
        return found

    if not (first := held(at)):
        return None
    holds = first
    for _ in range(_MOST):
        ends = [each.end for each in holds if each.end is not None]
        if len(ends) < len(holds):
            break
        if not (holds := held(until := max(ends))):
            return Waits(first[0].by.name, until.astimezone(UTC), first[-1].zone)
    return Waits(first[0].by.name, None)


def _is_open(spec: Any, at: datetime) -> bool:
    """Whether it opened less than its span ago, in elapsed time."""
    opened = _first_after(at.astimezone(UTC) - parse_span(spec.lasts), spec.opens, spec.timezone)
    return opened is not None and opened <= at


def _first_after(at: datetime, opens: str, zone: str) -> datetime | None:
    """As `first_after`. What was found holds for all times until then: a run asks at each of its steps."""
    known = _known(opens, zone)
    for begin, found in known:
        if begin <= at and (found is None or at < found):
            return found
    found = first_after(at, opens, ZoneInfo(zone))
    known.append((at, found))
    return found


@cache
def _known(opens: str, zone: str) -> deque[tuple[datetime, datetime | None]]:
    return deque(maxlen=8)
