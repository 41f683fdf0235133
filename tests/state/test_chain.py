"""The hash of a journal row is part of every state that was ever written: it never changes."""

import pytest

from reconciler.state.chain import row_hash, state_head

ROW = ("run-1", "step.done", "2026-01-01T00:00:00+00:00", "Volume/app/data#1", "s1", 1)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("app", "7f5f5341a04ed9fb796a2463c30f2a6caf72848ea1b197c5e3d1941976b9a532"),
        ("", "8c6bfa19739059bbc7c53735e90e533dca746aa5aa881b8833f4c93b7dc492b2"),
    ],
)
def test_a_row_is_hashed_as_ever(scope: str, expected: str) -> None:
    assert row_hash("before", 7, ROW, b'{"a":1}', scope) == expected


def test_a_state_has_a_head_of_its_own_and_no_state_has_none() -> None:
    heads = {"shop": "a", "blog": "b"}
    assert state_head("", {}) == ""
    assert state_head("one", heads) == state_head("one", dict(reversed(heads.items())))
    assert len({state_head("one", heads), state_head("two", heads), state_head("one", {"shop": "a"})}) == 3
