"""The meaning of a plain YAML scalar: PyYAML's reading (YAML 1.1), except that dates stay text."""

from collections.abc import Callable
from functools import lru_cache
from math import isfinite, isnan
from typing import Any

from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

_CONSTRUCTOR = SafeConstructor()
_CONSTRUCT: dict[str, Callable[[ScalarNode], Any]] = {
    "tag:yaml.org,2002:null": _CONSTRUCTOR.construct_yaml_null,
    "tag:yaml.org,2002:bool": _CONSTRUCTOR.construct_yaml_bool,
    "tag:yaml.org,2002:int": _CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
}

_TYPOGRAPHIC_QUOTES = frozenset("“”„‟«»‘’‚‛‹›")  # noqa: RUF001 (they only look like quotes: that is the point)

FIRST_CHARACTERS = frozenset(
    first
    for first, resolvers in Resolver.yaml_implicit_resolvers.items()
    if any(tag in _CONSTRUCT for tag, _ in resolvers)
).union(_TYPOGRAPHIC_QUOTES)
"""A plain scalar that begins with another character is text, as its writer means it."""

_LONGEST_NUMBER = 100  # base-60 numbers cost quadratic time


@lru_cache(maxsize=1 << 16)
def resolve(text: str) -> tuple[Any, bool]:
    """Return the value of the plain scalar `text`, and whether that is likely to surprise its writer.

    Surprising are the booleans yes, no, on and off, octal numbers (017), base-60 ones (1:30) and ones
    with `_` between digits (1_000), which are text to readers of YAML 1.2; and text between typographic
    quotes, which are a part of it.
    """
    if len(text) > _LONGEST_NUMBER:
        return text, False
    for tag, pattern in Resolver.yaml_implicit_resolvers.get(text[:1], ()):
        if tag in _CONSTRUCT and pattern.match(text):
            try:
                value = _CONSTRUCT[tag](ScalarNode(tag, text))
            except ValueError:  # `0b_` is a number to PyYAML's pattern and to nothing else
                return text, False
            return value, _surprises(text, value)
    return text, _in_typographic_quotes(text)


def _surprises(text: str, value: Any) -> bool:
    """Whether readers of YAML 1.2 take `text` for something else than `value`."""
    if isinstance(value, bool):
        return text.lower() not in ("true", "false")
    if isinstance(value, int):
        digits = text.lstrip("+-")
        return ":" in text or "_" in text or (len(digits) > 1 and digits[0] == "0" and digits[1] not in "bx")
    return isinstance(value, float) and (":" in text or "_" in text)


def _in_typographic_quotes(text: str) -> bool:
    """Whether one pair of typographic quotes encloses all of `text`."""
    around = len(text) > 1 and text[0] in _TYPOGRAPHIC_QUOTES and text[-1] in _TYPOGRAPHIC_QUOTES
    return around and not {text[0], text[-1]} & set(text[1:-1])


def written(value: Any) -> str:
    """Return the scalar `value` as YAML writes it: true, 15, 1.5, null."""
    if value is None:
        return "null"
    if isinstance(value, float) and not isfinite(value):
        return ".nan" if isnan(value) else ".inf" if value > 0 else "-.inf"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_text(text: str) -> bool:
    """Whether the plain scalar `text` is text."""
    return text[:1] not in FIRST_CHARACTERS or isinstance(resolve(text)[0], str)
