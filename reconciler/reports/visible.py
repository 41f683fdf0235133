"""Text that came from elsewhere, made safe for a terminal."""

import unicodedata

_TAB = "    "
_UNSEEN = (  # what turns the direction of text, breaks lines, or takes no room at all
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    "\u2028\u2029\u200b\u2060\ufeff\ufffe\uffff"
)


def visible(text: str) -> str:
    """`text` as a terminal shows it: tabs as spaces, control and unseen characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def visible_lines(text: str) -> str:
    """The same of text of ours that has several lines."""
    return "\n".join(map(visible, text.split("\n")))


def columns_of(text: str) -> int:
    """How many columns `text` takes in a monospaced font."""
    if text.isascii():
        return len(text)
    return sum(_columns_of_character(character) for character in text)


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _visible_character(character: str) -> str:
    if character == "\t":
        return _TAB
    if unicodedata.category(character) in ("Cc", "Cs") or character in _UNSEEN:
        code = ord(character)
        return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
    return character
