"""Numbers with their nouns, and words in a row."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """`1 object`, `2 objects`; any but 1 takes an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def in_a_row(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
