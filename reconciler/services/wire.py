"""What all wire models share: tolerance, and times of every precision."""

import re
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

_TIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})[Tt ](?P<clock>\d{2}:\d{2}:\d{2})(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?P<offset>[Zz]|[+-]\d{2}:?\d{2})?"
)


class Wire(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True, coerce_numbers_to_str=True)

    @property
    def present(self) -> bool:
        """Whether the object still exists; an unknown state counts as existing."""
        return True


def parse_time(text: str | None) -> datetime | None:
    """The moment in UTC; None for missing, unreadable and year-1 times, which all mean "not known".

    Accepts 0 to 9 fraction digits and `Z` or an offset. Source: platform notes, "Errors, limits, headers".
    """
    found = _TIME.fullmatch(text) if text else None
    if not found:
        return None
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    offset = (found["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{found['day']}T{found['clock']}.{fraction}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year > 1 else None
