"""JSON as reports print it."""

import json
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from reconciler.reports.visible import escaped


def json_text(document: Any) -> str:
    """A parser reads the same values; a person sees the characters that would be invisible."""
    plain = to_builtins(document, builtin_types=(datetime,))
    text = json.dumps(plain, ensure_ascii=False, indent=2, default=_in_text)
    return "\n".join(escaped(line, spelled) for line in text.split("\n")) + "\n"


def _in_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def spelled(character: str) -> str:
    """`character` as an escape of JSON."""
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
