"""How long something takes or has taken, in words."""

from collections.abc import Sequence
from datetime import datetime

_MINUTES, _HOURS, _DAYS = 60, 3600, 86400


def in_words(seconds: float) -> str:
    """Whole units, of a size that is easy to compare: `240 s`, `20 min`, `30 h`, `3 days`."""
    if seconds < 5 * _MINUTES:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOURS:
        return f"{seconds / _MINUTES:.0f} min"
    return f"{seconds / _HOURS:.0f} h" if seconds < 2 * _DAYS else f"{seconds / _DAYS:.0f} days"


def since(began: datetime, now: datetime, others_s: Sequence[float] = ()) -> str:
    """When something started, how long ago that was, and how long other objects of its kind took."""
    for_s = max(0.0, (now - began).total_seconds())
    took = " to ".join(dict.fromkeys(map(in_words, (min(others_s), max(others_s))))) if others_s else ""
    beside = f"; others took {took}" if took else ""
    return f"since {began:%Y-%m-%d %H:%M} UTC ({in_words(for_s)}{beside})"
