"""JSON as reports print it."""

import json
from typing import Any

from reconciler.reports.visible import escaped


def json_text(document: Any) -> str:
    """A parser reads the same values; a person sees the characters that would be invisible."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
    return "\n".join(escaped(line, spelled) for line in text.split("\n")) + "\n"


def spelled(character: str) -> str:
    """`character` as an escape of JSON."""
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
