"""Percentages as files write them: `80%`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_PERCENT = r"[1-9][0-9]?%"


def _number(value: Any) -> int:
    """The number of a text such as `80%`. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(_PERCENT, value):
        raise ValueError("expected a percentage from 1% to 99%, such as 80%")
    return int(value[:-1])


Percent = Annotated[
    int, BeforeValidator(_number), WithJsonSchema({"type": "string", "pattern": f"^{_PERCENT}$"})
]
