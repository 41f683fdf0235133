"""One digest of all that manifests ask for, by which a saved plan knows what it was made from."""

import hashlib
import json
from collections.abc import Iterable, Set
from typing import Any

from pydantic_core import to_json

from reconciler.core.model import Resource
from reconciler.manifests.revisions.changed import meant


def digest_resources(resources: Iterable[Resource]) -> str:
    """In no order. Comments, positions and labels do not count; the names of files do: records hold them."""
    digest = hashlib.sha256()
    for text in sorted(map(_text, resources)):
        digest.update(text)
    return digest.hexdigest()


def _text(resource: Resource) -> bytes:
    asked = meant(resource)
    spec = json.dumps(asked.pop("spec"), sort_keys=True, default=str)
    more = [(name, _in_order(asked[name])) for name in sorted(asked)]
    return to_json([str(resource.address), resource.file, spec, more]) + b"\n"


def _in_order(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, Set) else value
