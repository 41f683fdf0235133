"""Which keys a report may name: where a secret's value may stand, an unknown key may be that value."""

from collections.abc import Sequence

from reconciler.core.diagnostics import Span
from reconciler.core.model import Path

# Lower case, without `_`: what people call a value, here or in Kubernetes.
VALUE_NAMES = frozenset(
    {"data", "literal", "password", "plain", "plaintext", "secret", "string", "stringdata", "text", "value"}
)
_SOURCE = "_from"
_HOLDERS = ("_secret", "token")  # end what others call one: `webhook_secret`, `platform.token`


def may_be_a_value(path: Path) -> bool:
    """Whether the key that `path` ends with stands where a value or its source belongs.

    As in `value_from: {hunter2: A}`, which should have been `value_from: {env: A}`.
    """
    return any(isinstance(part, str) and _holds_a_value(part) for part in path[:-1])


def _holds_a_value(field: str) -> bool:
    return field.endswith((_SOURCE, *_HOLDERS)) or field.lower().replace("_", "") in VALUE_NAMES


def stands_alone(key: Span, lines: Sequence[str]) -> bool:
    """Whether no `:` follows the key: in braces that may be a value that lacks its own, as in `{hunter2}`."""
    return not lines[key.line - 1][key.end_column - 1 :].lstrip().startswith(":")


def named(path: Path) -> str:
    """`path` with dots, and `…` for what may be a value."""
    size = next((size for size in range(1, len(path)) if may_be_a_value(path[: size + 1])), len(path))
    return ".".join([*map(str, path[:size]), *["…"] * (size < len(path))])
