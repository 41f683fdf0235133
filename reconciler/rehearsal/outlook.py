"""What a forecast found: what comes to pass as time goes by, though nobody does anything."""

from datetime import datetime

from msgspec import Struct

from reconciler.core.model import Address


class Item(Struct, frozen=True):
    """`when`: since which moment it is so; None where nobody can tell."""

    address: Address
    what: str
    when: datetime | None


class Forecast(Struct, frozen=True):
    """`items`: by their time; those without one last. `after_apply`: the plan is carried out before."""

    at: datetime
    items: tuple[Item, ...]
    after_apply: bool = False


def by_time(item: Item) -> tuple[bool, float, str, str]:
    at = item.when.timestamp() if item.when is not None else 0.0
    return item.when is None, at, str(item.address), item.what
