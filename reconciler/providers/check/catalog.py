"""The table of checks: each has a group, a name, what is demanded, and where that is written."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from reconciler.providers.check.bench import Bench

Play = Callable[[Bench], Awaitable[None]]


class Check(Struct, frozen=True):
    """`play` raises Unmet or NotChecked; when it returns, the demand is met."""

    group: str
    name: str
    demand: str
    source: str
    play: Play

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


CHECKS: list[Check] = []


def check(group: str, name: str, demand: str, source: str) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        add(Check(group, name, demand, source, play))
        return play

    return register


def add(new: Check) -> None:
    assert all(each.title != new.title for each in CHECKS), new.title
    CHECKS.append(new)
