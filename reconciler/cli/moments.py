"""Moments and spans as the command line names them."""

import re
from datetime import UTC, datetime, timedelta

_SPAN = re.compile(r"(?P<number>\d{1,6})(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span_of(text: str) -> timedelta | None:
    """Of `30m`, `12h`, `7d`, `2w`; None for anything else."""
    found = _SPAN.fullmatch(text)
    return timedelta(**{_UNITS[found["unit"]]: int(found["number"])}) if found else None


def moment_of(text: str) -> datetime:
    """Of a date or a time, in UTC if it does not say. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
