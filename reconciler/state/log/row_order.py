"""One order for the rows of all scopes: by their time, and never before what caused them. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from reconciler.state import rules
from reconciler.state.contents import Row
from reconciler.state.rules import Effect


def in_one(chains: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows of all scopes, each scope's in its own order."""
    waiting = [deque(rows) for _, rows in sorted(chains.items()) if rows]
    causes, ordered = _Causes(row for rows in chains.values() for row in rows), []
    while waiting:
        ready = [rows for rows in waiting if causes.came_before(rows[0])] or waiting
        first = min(ready, key=lambda rows: datetime.fromisoformat(rows[0].columns[2]))
        row = first.popleft()
        causes.take(row)
        ordered.append(row)
        waiting = [rows for rows in waiting if rows]
    return ordered


class _Causes:
    """What rows of other scopes a row may need: the first half of a move, an object that it decides about."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._effects = {id(row): rules.effect_of_row(row.columns) for row in rows}
        self._untold = {effect.unclaimed for effect in self._effects.values() if effect.unclaimed}
        self._moving: Counter[str] = Counter()

    def came_before(self, row: Row) -> bool:
        effect = self._of(row)
        return effect.claimed not in self._untold and not (
            effect.moved_away and self._moving[effect.moved_away] <= 0
        )

    def take(self, row: Row) -> None:
        effect = self._of(row)
        self._untold.discard(effect.unclaimed)
        self._moving[effect.moved_from] += 1
        self._moving[effect.moved_away] -= 1

    def _of(self, row: Row) -> Effect:
        return self._effects[id(row)]
