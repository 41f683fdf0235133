"""The comparison that a SQL check expects: `> 1000`, `= 'ok'`, `between 1 and 5`."""

import re

_VALUE = r"(?:-?[0-9]+(?:\.[0-9]+)?|'(?:[^'\\]|'')*'|true|false)"
_COMPARISON = re.compile(
    rf"(?:<=|>=|!=|<>|==|=|<|>)\s*{_VALUE}|between\s+{_VALUE}\s+and\s+{_VALUE}", re.IGNORECASE
)


def parse_expect(text: str) -> str:
    """Return the comparison as SQL writes it behind a column. ValueError says how to write one."""
    comparison = text.strip()
    if not _COMPARISON.fullmatch(comparison):
        raise ValueError(
            f"`{text}` is not a comparison: write an operator and a number, true, false or a text in single "
            "quotes (without a backslash), such as `> 1000`, `= 'ok'` or `between 1 and 5`"
        )
    return comparison.removeprefix("=") if comparison.startswith("==") else comparison
