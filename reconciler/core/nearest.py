"""Suggestions for misspelt words. They are used in help texts only, never for a decision."""

from collections.abc import Sequence
from unicodedata import normalize


def nearest(word: str, candidates: Sequence[str]) -> str:
    """The candidate that `word` may be a misspelling of, or "". Letter case and width do not matter."""
    from difflib import get_close_matches  # few commands end with a suggestion

    by_lower = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(normalize("NFKC", word).lower(), by_lower, n=1)
    return by_lower[near[0]] if near else ""


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """A help text naming the candidate nearest to `word`, or ""."""
    near = nearest(word, candidates)
    return f"did you mean `{near}`?" if near else ""
