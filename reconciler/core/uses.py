"""What one call uses of budgets, as data: a Step holds it, its intent records it, budgets count it.

Amounts by line (`LINES`), None where nobody knows. A call that deletes or protects less also has `names`, the
texts that its object is known by (address and ids, with those of its snapshots), and `copy_of`: the names of
what it was made from, or `lowers`: the fields that protect less from then on.
"""

from collections.abc import Iterable, Mapping
from typing import Any

LINES: Mapping[str, str] = {
    "deletes": "objects deleted",
    "gb_deleted": "GB deleted",
    "gb_added": "GB added by creates and extends",
    "restarts": "restarts of machines that owe one",
    "creates": "objects created",
    "calls": "calls that change something",
    "drills": "restore drills",
}
SIZES = ("size_gb", "disk_size_gb")
Uses = Mapping[str, Any]


def largest(values: Iterable[Any]) -> int | None:
    """The largest of the sizes that are known, in GB."""
    return max((value for value in values if isinstance(value, int)), default=None)


def sent_gb(uses: Uses, body: Mapping[str, Any] | None) -> Uses:
    """`uses` of a call that is about to be sent: a create whose size an earlier answer gave knows it now."""
    if "creates" not in uses or uses.get("gb_added", 0) is not None:
        return uses
    return {**uses, "gb_added": largest((body or {}).get(name) for name in SIZES)}
