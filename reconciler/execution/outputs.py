"""Fills templates at the moment of sending, from earlier answers and secrets."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.core.errors import ReconcilerError
from reconciler.core.steps import OutputRef, SecretRef, Template
from reconciler.kinds.base import segment
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.outcome import at_path

SecretReader = Callable[[SecretRef, Callable[[OutputRef], Any]], Sensitive]


class Outputs:
    """The answers so far: objects by address, raw replies by step id."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def put(self, source: str, value: Any) -> None:
        """Store the answer of `source`, an address or a step id."""
        self._values[source] = value

    def get(self, ref: OutputRef) -> Any:
        """The value, or None if no answer so far contains it."""
        return at_path(self._values.get(ref.source), ref.path)

    def need(self, ref: OutputRef) -> Any:
        """The value. Raises ReconcilerError if no answer so far contains it."""
        value = self.get(ref)
        if value is None:
            raise ReconcilerError(f"{ref.source} has no `{ref.path}` yet")
        return value


def fill_path(path: str | Template, outputs: Outputs) -> str:
    """`path` with its references replaced, each as one encoded segment."""
    if isinstance(path, str):
        return path
    return "".join(part if isinstance(part, str) else segment(str(outputs.need(part))) for part in path.parts)


def fill_text(template: Template, outputs: Outputs) -> str:
    """`template` with its references replaced by text."""
    return "".join(part if isinstance(part, str) else str(outputs.need(part)) for part in template.parts)


def fill_body(value: Any, outputs: Outputs, read_secret: SecretReader) -> Any:
    """`value` with its references replaced. Secrets are in clear text: the result must only be sent."""
    if isinstance(value, SecretRef):
        return read_secret(value, outputs.need).reveal()
    if isinstance(value, Sensitive):
        return value.reveal()
    if isinstance(value, OutputRef):
        return outputs.need(value)
    if isinstance(value, Template):
        return fill_text(value, outputs)
    if isinstance(value, Mapping):
        return {name: fill_body(item, outputs, read_secret) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_body(item, outputs, read_secret) for item in value]
    return value


def fill_record(
    applied: Mapping[str, Any], outputs: Outputs, fingerprint: Callable[[SecretRef], str]
) -> dict[str, Any]:
    """The fields of a sent step for its record: references replaced, secrets as keyed fingerprints."""
    filled: dict[str, Any] = {}
    for name, value in applied.items():
        if isinstance(value, SecretRef):
            filled[name] = fingerprint(value)
        elif isinstance(value, OutputRef):
            value_now = outputs.get(value)
            if value_now is not None or not value.or_kept:
                filled[name] = value_now
        elif isinstance(value, Template):
            filled[name] = fill_text(value, outputs)
        else:
            filled[name] = value
    return filled
