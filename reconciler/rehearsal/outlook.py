"""What a forecast found: what comes to pass as time goes by, though nobody does anything."""

from dataclasses import dataclass
from datetime import datetime

from reconciler.core.model import Address


@dataclass(frozen=True, slots=True)
class Item:
    """`when`: since which moment it is so; None where nobody can tell."""

    address: Address
    what: str
    when: datetime | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """`items`: by their time; those without one last. `after_apply`: the plan is carried out before."""

    at: datetime
    items: tuple[Item, ...]
    after_apply: bool = False


def by_time(item: Item) -> tuple[bool, float, str, str]:
    at = item.when.timestamp() if item.when is not None else 0.0
    return item.when is None, at, str(item.address), item.what
