"""Nulls that somebody wrote: `region:` and `region: ~` are values of no type, not fields left out."""

from typing import Any


class _Null:
    """Fits no type, so that pydantic says at its place what was expected there."""


_NULL = _Null()


def mark_nulls(value: Any) -> Any:
    """`value` with every null replaced by something that no field accepts; never altered in place."""
    if isinstance(value, dict):
        return {name: mark_nulls(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_nulls(inner) for inner in value]
    return _NULL if value is None else value
