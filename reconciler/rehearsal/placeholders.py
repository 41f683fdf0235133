"""Values that stand for secrets: no source is read for a rehearsal, and no program is run."""

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
    """Each value equals itself, so what was unchanged stays so. What an earlier answer gives is asked for."""

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
    return Sensitive(hashlib.sha256(json.dumps(to_builtins(ref), sort_keys=True).encode()).hexdigest())
