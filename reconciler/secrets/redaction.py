"""Structural redaction: secrets are recognised by their field or their type, never by a search in text."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from reconciler.core.model import SENSITIVE
from reconciler.core.steps import OutputRef, SecretRef, Template
from reconciler.secrets.sensitive import Sensitive

# Lower case. `value`: a secret's request and reply; `config`: a provider's reply, set as secrets.
# Source: platform API, 2.5, 2.8, 4.3, 5.1 and 5.3.
SECRET_FIELDS = frozenset(
    {
        "access_token",
        "authorization",
        "client_secret",
        "code_verifier",
        "config",
        "id_token",
        "password",
        "refresh_token",
        "secret",
        "signing_secret",
        "token",
        "value",
        "webhook_secret",
        "x-signature",
    }
)


def redact(data: Any, fields: frozenset[str] = SECRET_FIELDS) -> Any:
    """Return a JSON copy of `data` that may be shown, logged or journaled.

    All values under a field named in `fields`, in any letter case, become `model.SENSITIVE`, except null;
    keys and lengths stay. So does every SecretRef and Sensitive. References and templates become their
    text, wire models their JSON, and raw bytes, whose content is unknown, their length.
    """
    return _redact(data, fields, hidden=False)


def redact_event(logger: Any, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact a log event. This is a structlog processor: place it before the renderer."""
    return {key: _field(key, value, SECRET_FIELDS, hidden=False) for key, value in event_dict.items()}


def _redact(data: Any, fields: frozenset[str], *, hidden: bool) -> Any:
    if isinstance(data, SecretRef | Sensitive):
        return SENSITIVE
    if isinstance(data, Mapping):
        return {key: _field(key, value, fields, hidden=hidden) for key, value in data.items()}
    if hasattr(data, "model_dump"):
        return _redact(data.model_dump(exclude_unset=True), fields, hidden=hidden)
    if isinstance(data, list) or type(data) is tuple:  # a named tuple, such as an Address, is one value
        return _redact_items(data, fields, hidden=hidden)
    if hidden:
        return None if data is None else SENSITIVE
    if isinstance(data, OutputRef | Template):
        return str(data)
    if isinstance(data, bytes):
        return f"({len(data)} bytes)"
    return data


def _redact_items(items: Sequence[Any], fields: frozenset[str], *, hidden: bool) -> list[Any]:
    return [_redact(item, fields, hidden=hidden) for item in items]


def _field(key: Any, value: Any, fields: frozenset[str], *, hidden: bool) -> Any:
    return _redact(value, fields, hidden=hidden or (isinstance(key, str) and key.lower() in fields))
