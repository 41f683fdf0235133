"""Makes values and foreign text safe to show: on a terminal, in the log of a CI job, and as JSON.

A manifest, the platform or a provider may hold characters that hide text, move the cursor, or command the
runner of a CI job. Secrets are replaced before anything is made of a value.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from reconciler.core.model import SENSITIVE
from reconciler.core.steps import OutputRef, SecretRef, Template

if TYPE_CHECKING:
    import jinja2

_TAB = "    "
# Letters and symbols that show nothing, although they may take room.
_BLANK = "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffe\uffff"
_JOINERS = "\u200c\u200d"  # some scripts and emoji need them; between plain letters they only hide
# Commands to a runner: `##[` anywhere in a line, and `::name …::`, which IPv6 never holds.
_COMMAND = r"(?<=##)\[|::(?=[A-Za-z][\w-]*(?:\s[^\n]*?)?::)"
_SUSPICIOUS = re.compile(rf"[^\x20-\x7e]|{_COMMAND}")


# --- text ---


def visible(text: str) -> str:
    """Return `text` for a terminal or a log: one line, in which everything can be seen.

    A tab becomes four spaces. Control characters, unseen characters and commands to the runner of a CI job
    become escapes such as `\\x1b` and `\\u202e`.
    """
    if text.isascii() and text.isprintable() and "##[" not in text and "::" not in text:
        return text
    return escaped(text.replace("\t", _TAB), _backslashed)


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """Return one line of text with `escape(character)` for each character that `visible` would escape."""

    def spell(found: re.Match[str]) -> str:
        part = found[0]
        return part if _is_seen(part, text[found.start() - 1 : found.start()]) else "".join(map(escape, part))

    return _SUSPICIOUS.sub(spell, text)


def _is_seen(part: str, before: str) -> bool:
    """Whether `part` may stay. It is a character outside of ASCII, or the beginning of a command."""
    if part.isascii():
        return False
    if part in _JOINERS:
        return bool(before) and not before.isascii()
    return unicodedata.category(part) not in ("Cc", "Cf", "Cs", "Zl", "Zp") and part not in _BLANK


def page_text(lines: Iterable[str]) -> str:
    """Return `lines` as visible text that ends with a line break."""
    return "".join(f"{visible(line)}\n" for line in lines)


def visible_lines(text: str) -> str:
    """Return our own text of several lines with each line made visible."""
    return "\n".join(map(visible, text.split("\n")))


def columns_of(text: str) -> int:
    """Count the terminal columns of `text`: two for a wide character, none for a combining one.

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


# --- one character, in the escape of a format ---


def _backslashed(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def numbered(character: str) -> str:
    """Return the numeric reference of HTML and XML, such as `&#8238;`."""
    return f"&#{ord(character)};"


def spelled(character: str) -> str:
    """Return the escape of JSON, such as `\\u202e`."""
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"


# --- templates ---


@cache
def template(name: str) -> "jinja2.Template":
    """A template of `reports/formats`, for HTML and XML. It escapes each value and makes it visible."""
    from jinja2 import Environment, StrictUndefined  # late: few formats need it

    environment = Environment(
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else visible(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["pixels"] = lambda number: f"{number:g}"
    source = resources.files("reconciler.reports.formats").joinpath(name).read_text(encoding="utf-8")
    return environment.from_string(source)


# --- values ---


def shown(value: Any) -> Any:
    """Return `value` with references as templates (`${…}`) and each secret as `(sensitive)`."""
    if isinstance(value, SecretRef):
        return SENSITIVE
    if isinstance(value, OutputRef | Template):
        return str(value)
    if isinstance(value, Mapping):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value


def in_json(value: Any) -> str:
    """Return `shown(value)` as JSON on one line."""
    return json.dumps(shown(value), ensure_ascii=False, default=str)


def json_text(document: Any) -> str:
    """Return a document as indented JSON.

    A parser reads the same values; a person sees the characters that would be invisible as escapes.
    """
    plain = to_builtins(document, builtin_types=(datetime,), enc_hook=str)
    text = json.dumps(plain, ensure_ascii=False, indent=2, default=datetime.isoformat)
    return "\n".join(escaped(line, spelled) for line in text.split("\n")) + "\n"
