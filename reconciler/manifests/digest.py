"""One digest of all that manifests ask for, by which a saved plan knows what it was made from."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from typing import Any

from msgspec.structs import asdict
from pydantic_core import to_json

from reconciler.core.model import Address, Lifecycle, Resource
from reconciler.kinds.manifest import Spec
from reconciler.manifests.revisions.changed import meant

_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
_NOTHING = meant(Resource(Address("", ""), Spec(), Lifecycle(), "", {}))
del _NOTHING["spec"]


def digest_resources(resources: Iterable[Resource]) -> str:
    """In no order. Comments, positions and labels do not count; the names of files do: records hold them."""
    digest = hashlib.sha256()
    for text in sorted(map(_text, resources)):
        digest.update(text)
    return digest.hexdigest()


def _text(resource: Resource) -> bytes:
    asked = meant(resource)
    spec = _ENCODER.encode(asked.pop("spec"))
    more = _of_lifecycle(resource.lifecycle) if _is_plain(asked) else _more(asked)
    return b"%s,%s]\n" % (to_json([str(resource.address), resource.file, spec])[:-1], more)


def _more(asked: Mapping[str, Any]) -> bytes:
    return to_json([(name, _in_order(asked[name])) for name in sorted(asked)], fallback=asdict)


def _is_plain(asked: Mapping[str, Any]) -> bool:
    """Whether there is nothing but a lifecycle in it, as in most resources."""
    return asked == {**_NOTHING, "lifecycle": asked["lifecycle"]}


@lru_cache(maxsize=1000)
def _of_lifecycle(lifecycle: Lifecycle) -> bytes:
    return _more({**_NOTHING, "lifecycle": lifecycle})


def _in_order(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, Set) else value
