"""What one call uses of budgets, as data: a Step holds it, its intent records it, budgets count it.

Amounts by line of a budget, such as `deletes` and `gb_added`; None where nobody knows. Of an extend also
`to_gb`, the size afterwards. A call that deletes or protects less has `names`, the texts that its object is
known by (address and ids, with those of its snapshots), and `copy_of`, the names of what it was made from, or
`lowers`, the fields that protect less from then on.
"""

from collections.abc import Iterable, Mapping
from typing import Any

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
