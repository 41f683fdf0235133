"""When each scope is looked at: in rounds, at once where somebody asks, and less often after failures."""

import random
from collections import Counter
from collections.abc import Collection, Mapping

from reconciler.controller.memory import Order
from reconciler.controller.status import Seen, Status
from reconciler.core.clock import Clock

_JITTER = 0.1  # of a round's time, at most, to either side
_MOST_ROUNDS = 4  # a scope that could not be read is looked at after at most so many rounds


class Schedule:
    """`again`: the scopes to look at once more, before the next round."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.again: set[str] = set()
        self._round_s = 0.0
        self._failures: Counter[str] = Counter()
        self._due_s: dict[str, float] = {}  # when a scope that could not be read is due again
        self._asked: dict[str, str] | None = None  # by scope, the last order to look at once that was obeyed

    @property
    def is_round_due(self) -> bool:
        return self._clock.monotonic() >= self._round_s

    def round_began(self, at_s: float, every_s: float) -> None:
        self._round_s = at_s + every_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret

    def wanted(self, orders: Mapping[str, Order], busy: Collection[str]) -> set[str]:
        """The scopes that are to be looked at although no round is due. Those that are `busy` come later."""
        wanted, self.again = self.again.difference(busy), self.again.intersection(busy)
        asked = self._asked or {}
        return wanted | {
            scope
            for scope, order in orders.items()
            if order.now and not order.suspended and order.now != asked.get(scope)
        }

    def obey(self, orders: Mapping[str, Order], scopes: Collection[str]) -> None:
        """`scopes` are looked at now. What was ordered before the first look is obeyed by it."""
        looked_at = {*orders} if self._asked is None else scopes
        orders = {scope: order for scope, order in orders.items() if scope in looked_at}
        self._asked = (self._asked or {}) | {scope: order.now for scope, order in orders.items()}

    def failing(self, scopes: Collection[str]) -> set[str]:
        """Those that could not be read lately."""
        return {scope for scope in scopes if self._failures[scope]}

    def is_due(self, scope: str) -> bool:
        """Whether one that could not be read is to be looked at again."""
        return self._clock.monotonic() >= self._due_s.get(scope, 0.0)

    def looked(self, seen: Mapping[str, Seen], every_s: float) -> None:
        """Take up whether the scopes could be read."""
        for scope, found in seen.items():
            if found.status is not Status.UNKNOWN:
                del self._failures[scope]
                continue
            self._failures[scope] += 1
            rounds = min(2 ** (self._failures[scope] - 1), _MOST_ROUNDS)
            spread = random.uniform(1 - _JITTER, 1)  # noqa: S311 - no secret
            self._due_s[scope] = self._clock.monotonic() + every_s * rounds * spread
