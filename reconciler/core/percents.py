"""How full objects may be, and when they grow, as files write it: `80%`."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_PERCENT = r"[1-9][0-9]?%"


def _number(value: Any) -> int:
    """The number of a text such as `80%`. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(_PERCENT, value):
        raise ValueError("expected a percentage from 1% to 99%, such as 80%")
    return int(value[:-1])


Percent = Annotated[
    int, BeforeValidator(_number), WithJsonSchema({"type": "string", "pattern": f"^{_PERCENT}$"})
]


class Grow(BaseModel):
    """Extends it within its range `size_gb`, before it is full."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    at: Percent = Field(description="How full it has to be, in percent.", examples=["85%"])
    by: Percent = Field(description="How much larger it gets, in percent of its size.", examples=["20%"])
    most_gb_per_day: int = Field(
        ge=1, description="How many GB at most are added to it within 24 hours.", examples=[100]
    )
