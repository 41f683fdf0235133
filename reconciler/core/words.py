"""Numbers, rows and durations in words, and suggestions for misspelt ones."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from unicodedata import normalize
from zoneinfo import ZoneInfo

_MINUTES, _HOURS, _DAYS = 60, 3600, 86400


def counted(number: int, noun: str) -> str:
    """Return `1 object`, `2 objects`; any number but 1 takes an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def in_a_row(words: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def in_words(seconds: float) -> str:
    """Return whole units, of a size that is easy to compare: `240 s`, `20 min`, `30 h`, `3 days`."""
    if seconds < 5 * _MINUTES:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOURS:
        return f"{seconds / _MINUTES:.0f} min"
    return f"{seconds / _HOURS:.0f} h" if seconds < 2 * _DAYS else f"{seconds / _DAYS:.0f} days"


def since(began: datetime, now: datetime, others_s: Sequence[float] = ()) -> str:
    """Return when something started and how long ago, and the range that other objects of its kind took.

    `others_s`: the seconds that these took, in any order.
    """
    for_s = max(0.0, (now - began).total_seconds())
    took = " to ".join(dict.fromkeys(map(in_words, (min(others_s), max(others_s))))) if others_s else ""
    others = f"; others took {took}" if took else ""
    return f"since {began:%Y-%m-%d %H:%M} UTC ({in_words(for_s)}{others})"


def soon(time: datetime, zone: str, now: datetime) -> str:
    """Return a later time in `zone`: `Tue 22:00 Europe/Berlin`, with the date where a weekday is not enough.

    In UTC where nobody here knows the zone.
    """
    try:
        local = time.astimezone(ZoneInfo(zone))
    except (OSError, ValueError, LookupError):
        local, zone = time.astimezone(UTC), "UTC"
    day = "" if time - now < timedelta(days=6) else f"{local:%Y-%m-%d} "
    return f"{local:%a} {day}{local:%H:%M} {zone}"  # Python keeps English unless it is told otherwise


def nearest(word: str, candidates: Sequence[str]) -> str:
    """Return the candidate that `word` may be a misspelling of, or "". Letter case and width do not matter.

    For help texts only, never for a decision.
    """
    from difflib import get_close_matches  # few commands end with a suggestion

    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(normalize("NFKC", word).lower(), by_lower, n=1)
    return by_lower[near[0]] if near else ""


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """Return a help text that names the candidate nearest to `word`, or ""."""
    near = nearest(word, candidates)
    return f"did you mean `{near}`?" if near else ""
