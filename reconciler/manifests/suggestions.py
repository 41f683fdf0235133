"""Help for values, names and characters that do not mean what their writer meant: what to write instead."""

import re
import unicodedata
from typing import Any

from reconciler.manifests.reading.scalars import resolve, written

MEANT_TYPES = ("true or false", "an integer", "a number")
NULL_HELP = "give it a value, or remove it"

_LONGEST_SHOWN = 40
_PATTERNS = {
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}": (
        "at most 63 letters, digits, `.`, `_` and `-`, the first one a letter or digit"
    ),
    r"[A-Za-z_][A-Za-z0-9_]{0,126}": "at most 127 letters, digits and `_`, the first one a letter or `_`",
    r"[A-Za-z_][A-Za-z0-9_]*": "letters, digits and `_`, not beginning with a digit",
    r"[^\[\x00-\x1f\x7f]+": "write dots between keys, or a list of keys, such as [database, password]",
    r"[^\x00-\x1f\x7f]*": "it holds no line breaks and no other control characters",
    r"([A-Za-z0-9][A-Za-z0-9._~-]{0,254})?": (
        "an id has at most 255 letters, digits, `.`, `_`, `~`, `-`, and begins with a letter or digit"
    ),
    r"[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?": (
        "one line of text, which neither begins nor ends with a space"
    ),
    r"[^\s./\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*": (
        "no spaces, no `/` and `\\`, and no `.` at the beginning"
    ),
    r"[a-z]{3}": "three lower-case letters, such as ams",
    r"https?://[^\s/\\?#@\x00-\x1f\x7f]+(/[^\s\\?#@\x00-\x1f\x7f]*)?": (
        "write https://, a host and perhaps a path: no user, password, query or fragment"
    ),
}
_BOOLEANS = {"y": "true", "n": "false"}
_OCTAL = re.compile(r"([-+]?)0o([0-7]{1,20})")
_POWER_OF_TEN = re.compile(r"[-+]?[0-9]{1,9}[eE]\+?[0-9]{1,2}")
_WITH_UNIT = re.compile(r"([-+]?[0-9]{1,18})[ _]?[kKmMgGtT]?[iI]?[bB]?")
_VARIABLE = re.compile(r"\$(\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)")
_PAIR_WITHOUT_SPACE = re.compile(r"([A-Za-z_]\w*):(\S.*)", re.DOTALL)
_PAIR_WITH_EQUALS = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\S.*)", re.DOTALL)


def clip(text: str) -> str:
    """Return `text`, cut at 40 characters."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def pattern_help(pattern: str) -> str:
    """Return words for `pattern` of a model, or else the pattern itself."""
    inner = pattern.removeprefix("^").removesuffix("$")
    return _PATTERNS.get(inner, f"it must match {inner}")


def retype(expected: str, value: Any, text: str | None) -> str:
    """Return how to write `value` as `expected` ("an integer") demands; "" if unknown.

    `text`: the text in the file, where YAML 1.1 reads it as something else than it looks.
    """
    if value is None:
        return "indent its fields below it, or write `{}`" if expected == "a mapping" else NULL_HELP
    if expected == "text" and isinstance(value, bool | int):
        return f'quote it: "{clip(text or written(value))}"'
    if expected == "text" and isinstance(value, float):
        return "put it in quotes"
    if isinstance(value, str):
        return _reword(expected, value)
    if expected == "a mapping" and isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return "a mapping is written without `-`"
    return ""


def _reword(expected: str, value: str) -> str:
    if _VARIABLE.fullmatch(value):
        return "variables are not replaced in manifests: write the value"
    if expected in MEANT_TYPES:
        meant = resolve(value)[0]
        wanted = bool if expected == "true or false" else int | float
        if isinstance(meant, wanted):
            return f"write `{clip(written(meant))}` without quotes"
        other = _BOOLEANS.get(value.lower(), "") if wanted is bool else _number(value)
        if other:
            return f"write `{other}`"
    if expected == "a list" and value:
        return f"write `[{clip(value)}]`"
    if expected == "a mapping" and (pair := as_pair(value)):
        return pair
    return lookalike(value)


def _number(text: str) -> str:
    """Return the number that `text` is in YAML 1.2, or before a unit; "" if it is none."""
    if found := _OCTAL.fullmatch(text):
        return f"{found[1]}{int(found[2], 8)}"
    if _POWER_OF_TEN.fullmatch(text):
        return str(int(float(text)))
    found = _WITH_UNIT.fullmatch(text)
    return found[1] if found else ""


def as_pair(text: str) -> str:
    """Return help for `size_gb:10` and `size_gb = 10`, which are text; "" for other text."""
    if found := _PAIR_WITHOUT_SPACE.fullmatch(text):
        return f"write `{clip(f'{found[1]}: {found[2]}')}`, with a space after the `:`"
    if found := _PAIR_WITH_EQUALS.fullmatch(text):
        return f"write `{clip(f'{found[1]}: {found[2]}')}`, with a `:`"
    return ""


def lookalike(text: str) -> str:
    """Return help about the first character of `text` that only looks like an ordinary one, or ""."""
    if text.isascii():
        return ""
    for character in text:
        looks = "" if character.isascii() else _looks_like(character, text)
        if looks:
            return f"U+{ord(character):04X} ({unicodedata.name(character, 'unnamed').lower()}) {looks}"
    return ""


def _looks_like(character: str, text: str) -> str:
    category = unicodedata.category(character)
    plain = unicodedata.normalize("NFKC", character)
    if category == "Cf":
        return "" if _in_emoji(character, text) else "cannot be seen: remove it"
    if category == "Zs":
        return "is not a space in YAML: type it again"
    if category in ("Pi", "Pf"):
        return "is not a quote in YAML: type it again"
    if category == "Pd":
        return "is not a `-` in YAML: type it again"
    if len(plain) == 1 and plain.isascii():
        return f"only looks like `{plain}`: type it anew"
    of_another = unicodedata.name(character, "").startswith(("CYRILLIC", "GREEK"))
    latin = any(other.isascii() and other.isalpha() for other in text)
    return "only looks like a Latin letter: type it anew" if of_another and latin else ""


def _in_emoji(character: str, text: str) -> bool:
    """Whether `character` joins two parts of an emoji."""
    before, _, after = text.partition(character)
    return character == "\u200d" and bool(before) and not before[-1].isascii() and not after[:1].isascii()
