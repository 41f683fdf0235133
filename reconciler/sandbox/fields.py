"""Typed reading of request bodies: the value, None when missing, or a Refusal that names the field."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.sandbox.exchange import Refusal

# What every client can put into a path.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"
INVALID = "invalid_argument"
MOST = 2**53 - 1  # what numbers of every client hold
NOT_BLANK = re.compile(r"[^\x00-\x20]")  # the same as in the description, whatever counts as a space


def text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise refused(name, "must be a string")
    return value


def required_text(body: Mapping[str, Any], name: str) -> str:
    value = text(body, name)
    if value is None or not NOT_BLANK.search(value):
        raise refused(name, "is required")
    return value


def whole(body: Mapping[str, Any], name: str, low: int, high: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 10.0 is an integer in JSON's own terms
    if not isinstance(value, int) or isinstance(value, bool):
        raise refused(name, "must be an integer")
    if high is None and value > MOST:
        raise refused(name, f"must be at most {MOST}")
    if value < low or (high is not None and value > high):
        raise refused(
            name, f"must be between {low} and {high}" if high is not None else f"must be at least {low}"
        )
    return value


def flag(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise refused(name, "must be true or false")
    return value


def choice(body: Mapping[str, Any], name: str, options: Sequence[str]) -> str | None:
    value = text(body, name)
    if value is not None and value not in options:
        raise refused(name, f"must be one of {', '.join(options)}")
    return value


def refused(name: str, problem: str) -> Refusal:
    return Refusal(422, f"{name} {problem}", INVALID, details={name: problem})
