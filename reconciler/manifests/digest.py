"""One digest of all that manifests ask for, by which a saved plan knows what it was made from."""

import hashlib
import json
from collections.abc import Iterable, Set
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec.structs import asdict, replace
from pydantic_core import to_json

from reconciler.core.model import Address, Lifecycle, Resource
from reconciler.kinds.manifest import Spec
from reconciler.manifests.revisions.changed import meant, meant_spec

_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
_NOTHING = Resource(Address("", ""), Spec(), Lifecycle(), "", {})
_MORE = sorted(meant(_NOTHING).keys() - {"spec"})
_RARE = attrgetter(*(name for name in _MORE if name != "lifecycle"))  # what most resources have nothing of
_NO_MORE = _RARE(_NOTHING)


def digest_resources(resources: Iterable[Resource]) -> str:
    """In no order. Comments, positions and labels do not count; the names of files do: records hold them."""
    digest = hashlib.sha256()
    for text in sorted(map(_text, resources)):
        digest.update(text)
    return digest.hexdigest()


def _text(resource: Resource) -> bytes:
    spec = _ENCODER.encode(meant_spec(resource))
    more = _of_lifecycle(resource.lifecycle) if _RARE(resource) == _NO_MORE else _more(resource)
    return b"%s,%s]\n" % (to_json([str(resource.address), resource.file, spec])[:-1], more)


def _more(resource: Resource) -> bytes:
    asked = meant(resource)
    return to_json([(name, _in_order(asked[name])) for name in _MORE], fallback=asdict)


@lru_cache(maxsize=1000)
def _of_lifecycle(lifecycle: Lifecycle) -> bytes:
    return _more(replace(_NOTHING, lifecycle=lifecycle))


def _in_order(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, Set) else value
