"""Text that came from elsewhere, made safe for a terminal and for the log of a CI job."""

import re
import unicodedata
from collections.abc import Callable, Iterable

_TAB = "    "
# Letters and symbols that take room, or none, and show nothing.
_BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffe\uffff"
_JOINERS = "\u200c\u200d"  # some scripts and emoji need them; between plain letters they only hide
# What a runner takes for a command: `##[` anywhere in a line, and `::name …::`, which IPv6 never holds.
_COMMAND = r"(?<=##)\[|::(?=[A-Za-z][\w-]*(?:\s[^\n]*?)?::)"
_SUSPICIOUS = re.compile(rf"[^\x20-\x7e]|{_COMMAND}")


def visible(text: str) -> str:
    """`text` as a terminal shows it: tabs as spaces; control and unseen characters, and what would be a
    command to the runner of a CI job, as escapes.
    """
    if text.isascii() and text.isprintable() and "##[" not in text and "::" not in text:
        return text
    return escaped(text.replace("\t", _TAB), _escape)


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """`text`, one line of it, with each character that `visible` spells out as `escape` says."""

    def spell(found: re.Match[str]) -> str:
        part = found[0]
        return part if _is_seen(part, text[found.start() - 1 : found.start()]) else "".join(map(escape, part))

    return _SUSPICIOUS.sub(spell, text)


def _is_seen(part: str, before: str) -> bool:
    """`part`: a character that is not plain, or the beginning of a command."""
    if part.isascii():
        return False
    if part in _JOINERS:
        return bool(before) and not before.isascii()
    return unicodedata.category(part) not in ("Cc", "Cf", "Cs", "Zl", "Zp") and part not in _BLANK


def page_text(lines: Iterable[str]) -> str:
    return "".join(f"{visible(line)}\n" for line in lines)


def visible_lines(text: str) -> str:
    """The same of text of ours that has several lines."""
    return "\n".join(map(visible, text.split("\n")))


def numbered(character: str) -> str:
    """`character` as HTML and XML name it by its number."""
    return f"&#{ord(character)};"


def columns_of(text: str) -> int:
    """How many terminal columns `text` takes: two for wide characters, none for combining ones.

    Parts of an emoji that a joiner holds together count as one wide character.
    """
    if text.isascii():
        return len(text)
    columns = 0
    joined = False
    for character in text:
        if character == "\u200d":
            joined = True
        elif unicodedata.category(character) in ("Mn", "Me", "Cf") or joined:
            joined = False
        else:
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
