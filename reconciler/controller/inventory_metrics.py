"""The numbers of an inventory, for Prometheus."""

from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from reconciler.core.context import Context
from reconciler.inventory.page import ItemJson

_NUMBERS: dict[str, tuple[str, Callable[[ItemJson], Any]]] = {
    "objects": ("Objects on the platform.", lambda item: 1),
    "detached_objects": ("Those without a machine.", lambda item: item.attached is False),
    "size_gigabytes": ("Their sizes.", lambda item: item.size_gb),
    "used_bytes": ("Their data, where it is known.", lambda item: item.used_bytes),
    "copies": ("Their snapshots and backups.", lambda item: item.copies and item.copies.count),
    "copies_bytes": ("The sizes of these.", lambda item: item.copies and item.copies.bytes),
    "monthly_price": ("What they cost in a month, with their copies.", lambda item: item.cost),
}
_LABELS = ("environment", "kind", "place", "owner")


def text_of(items: Sequence[ItemJson], context: Context) -> str:
    """The sums in Prometheus' text format 0.0.4. A number that nothing tells is left out."""
    registry = CollectorRegistry()
    for name, (what, number) in _NUMBERS.items():
        gauge = Gauge(f"reconciler_inventory_{name}", what, _LABELS, registry=registry)
        for item in items:
            if (found := number(item)) is not None:
                gauge.labels(context.environment, item.kind, item.place, item.owner).inc(float(found))
    return generate_latest(registry).decode()
