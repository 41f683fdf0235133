"""Spans of time as files write them: `30m`, `24h`, `7d`."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

LONGEST = timedelta(days=30)
_SPAN = re.compile(r"([1-9][0-9]{0,4})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_span(text: str) -> timedelta:
    """The duration of a text such as `30m`, `24h` or `7d`. Raises ValueError."""
    found = _SPAN.fullmatch(text)
    if not found or timedelta(**{_UNITS[found[2]]: int(found[1])}) > LONGEST:
        raise ValueError("expected a time such as 30m, 24h or 7d, at most 30d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _checked(text: str) -> str:
    """`text`, if it is a duration. Raises ValueError."""
    parse_span(text)
    return text


SpanText = Annotated[str, AfterValidator(_checked)]
