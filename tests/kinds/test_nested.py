"""Differences inside nested values: each with its full path, in the manifest's order."""

from typing import Any

import pytest

from reconciler.core.model import Effect
from reconciler.kinds.base import joined, nested_changes, parts_of

ABSENT = None


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"memory_mb": 256}, {"memory_mb": 512}, {"compute.memory_mb": (256, 512)}),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, {"compute.b": (1, 2), "compute.a": (1, 2)}),
        ({"a": 1, "gone": 1}, {"a": 1, "new": 1}, {}),
        (
            {"guest": {"cpu": {"count": 1, "kind": "shared"}}},
            {"guest": {"cpu": {"count": 2, "kind": "shared"}}},
            {"compute.guest.cpu.count": (1, 2)},
        ),
        ({"guest": {"a": 1, "theirs": 1}}, {"guest": {"a": 2, "ours": 1}}, {"compute.guest.a": (1, 2)}),
        ({"args": ["quiet", "fast"]}, {"args": ["quiet", "slow"]}, {"compute.args[1]": ("fast", "slow")}),
        ({"args": ["quiet"]}, {"args": ["quiet", "debug"]}, {"compute.args[1]": (ABSENT, "debug")}),
        ({"args": ["quiet", "debug"]}, {"args": ["quiet"]}, {"compute.args[1]": ("debug", ABSENT)}),
        ({"args": ["b", "c"]}, {"args": ["a", "b", "c"]}, {"compute.args[0]": (ABSENT, "a")}),
        (
            {"disks": [{"gb": 1}, {"gb": 2}]},
            {"disks": [{"gb": 1}, {"gb": 3}]},
            {"compute.disks[1].gb": (2, 3)},
        ),
        ({"a": 1}, {"a": "1"}, {"compute.a": (1, "1")}),
        ({"a": 1}, {"a": {"b": 1}}, {"compute.a": (1, {"b": 1})}),
        ({"a": [1]}, {"a": None}, {"compute.a": ([1], None)}),
        ({"env": {"a.b": 1}}, {"env": {"a.b": 2}}, {'compute.env["a.b"]': (1, 2)}),
        (
            {"args": [f"arg{number}" for number in range(12)]},
            {"args": [f"arg{number}" for number in range(2)] + ["x"] * 10},
            {f"compute.args[{number}]": (f"arg{number}", "x") for number in range(2, 12)},
        ),
    ],
)
def test_each_difference_has_its_full_path(
    before: dict[str, Any], after: dict[str, Any], changes: dict[str, tuple[Any, Any]]
) -> None:
    found = list(nested_changes("compute", before, after, Effect.REFUSED))
    assert [(each.path, (each.before, each.after)) for each in found] == list(changes.items())
    assert {each.effect for each in found} <= {Effect.REFUSED}


@pytest.mark.parametrize("parts", [["a"], ["a", "b-c", 10, "d"], ["a", "b.c", 'q"[0]', 0, ""]])
def test_a_path_is_read_as_it_was_written(parts: list[str | int]) -> None:
    assert parts_of(joined(parts)) == parts
