"""What differs inside a nested value, such as `compute`: a change per value instead of one for all of it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.model import Effect, FieldChange

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PART = re.compile(r'\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+|"(?:[^"\\]|\\.)*")\]')
# What deepdiff calls a name that only one side has: such a field is not managed, or not known.
_ONE_SIDED = ("dictionary_item_added", "dictionary_item_removed")


def nested_changes(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], effect: Effect
) -> Iterator[FieldChange]:
    """The values inside `after` that are others in `before`, in the order of `after`, with their full paths.

    A name that only one of the two holds is not a difference, at any depth. In a list, what only one of the
    two holds stands against None.
    """
    from deepdiff import DeepDiff  # 0.1 s: only once something does differ
    from deepdiff.helper import notpresent

    tree = DeepDiff(before, after, view="tree")
    order = {name: number for number, name in enumerate(after)}
    found = [
        (item.path(output_format="list"), item)
        for group, items in tree.items()
        if group not in _ONE_SIDED
        for item in items
    ]
    for parts, item in sorted(found, key=lambda each: [order[each[0][0]], *each[0][1:]]):
        known, want = (None if value is notpresent else value for value in (item.t1, item.t2))
        yield FieldChange(joined([path, *parts]), known, want, effect)


def joined(parts: Sequence[str | int]) -> str:
    """`compute.kernel_args[1]`; a name that is not plain stands in quotes: `config["a.b"]`."""
    text = ""
    for part in parts:
        if isinstance(part, str) and _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def parts_of(path: str) -> list[str | int]:
    """The opposite of `joined`."""
    return [name or json.loads(other) for name, other in _PART.findall(path)]
