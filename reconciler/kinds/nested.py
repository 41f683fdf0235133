"""What differs inside a nested value, such as `compute`: a change per field instead of one for all of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.model import Effect, FieldChange


def nested_changes(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], effect: Effect
) -> Iterator[FieldChange]:
    """The fields of `after` whose value in `before` is another, in the order of `after`.

    A field that only one of the two holds is not managed or not known: no difference. Lists are one value.
    """
    from deepdiff import DeepDiff  # 0.1 s: only once something does differ

    common = [name for name in after if name in before]
    tree = DeepDiff(
        {name: before[name] for name in common}, {name: after[name] for name in common}, view="tree"
    )
    differing = {item.path(output_format="list")[0] for group in tree.values() for item in group}
    for name in common:
        if name in differing:
            yield FieldChange(f"{path}.{name}", before[name], after[name], effect)
