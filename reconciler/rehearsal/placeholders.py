"""Placeholders for secrets: a rehearsal reads no source and runs no program."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from reconciler.core.steps import OutputRef, SecretRef
from reconciler.secrets.sensitive import Sensitive
from reconciler.secrets.sources import Sources


class Placeholders(Sources):
    """Sources that give a placeholder for each secret. Outputs of earlier steps are still looked up."""

    def __init__(self) -> None:
        super().__init__(Path(), {})

    def value(self, ref: SecretRef, output: Callable[[OutputRef], Any]) -> Sensitive:
        for part in ref.parts:
            if isinstance(part, OutputRef):
                output(part)
            elif isinstance(part, SecretRef):
                self.value(part, output)
        return placeholder(ref)

    def prepare(self, refs: Iterable[SecretRef]) -> bool:
        return False

    def is_unchecked(self, ref: SecretRef) -> bool:
        return False


def placeholder(ref: SecretRef) -> Sensitive:
    """The SHA-256 of the reference. It is always the same, so an unchanged secret stays unchanged."""
    return Sensitive(hashlib.sha256(json.dumps(to_builtins(ref), sort_keys=True).encode()).hexdigest())
