"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """`1 object`, `2 objects`; any but 1 takes an s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
