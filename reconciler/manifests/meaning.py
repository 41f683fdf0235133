"""The meaning of manifests: a digest for saved plans, and the difference between two loads.

Comments and positions have no meaning; labels have one only through the policies that select by them.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace
from pydantic_core import to_json

from reconciler.core.model import Address, Lifecycle, Resource
from reconciler.kinds.manifest import Spec
from reconciler.policies.moved import MovedSpec

if TYPE_CHECKING:
    from reconciler.manifests.load import Loaded

_NOT_MEANT = frozenset({"address", "file", "spans", "inherited", "base", "labels"})
_MEANT = tuple(name for name in Resource.__struct_fields__ if name not in _NOT_MEANT)


class Changed(Struct, frozen=True):
    """`differ`: resources added, removed or with another meaning. `dependants`: others that refer to them."""

    differ: frozenset[Address]
    dependants: frozenset[Address]

    @property
    def addresses(self) -> frozenset[Address]:
        """All resources that a run about the change has to look at."""
        return self.differ | self.dependants


def changed(
    before: "Loaded",
    after: "Loaded",
    other_files: Callable[[Resource, Resource], bool] = lambda old, new: False,
) -> Changed:
    """Return the resources that differ between two loads of one project.

    They are compared after overlays and policies. The place of a manifest, its spelling and its labels do
    not matter. Resources that are invalid in `before` count as different. `other_files`: whether two
    manifests of one resource name files with different content.
    """
    old, new = _by_address(before), _by_address(after)

    def same(address: Address) -> bool:
        was, now = old.get(address), new.get(address)
        if was is None or now is None:
            return False
        return (_is_alike(was, now) or meant(was) == meant(now)) and not other_files(was, now)

    differ = {address for address in {**old, **new} if not same(address)} | set(before.claimed)
    differ |= {to for address in differ for loaded in (old, new) for to in _moved(loaded.get(address), new)}
    referring: Mapping[Address, set[Address]] = defaultdict(set)
    for resource in new.values():
        for reference in resource.references:
            referring[reference.address].add(resource.address)
    reached, edge = set(differ), set(differ)
    while edge:
        edge = {address for origin in edge for address in referring.get(origin, ())} - reached
        reached |= edge
    return Changed(frozenset(differ), frozenset(reached - differ))


def _by_address(loaded: "Loaded") -> dict[Address, Resource]:
    both: Iterable[Resource] = (*loaded.resources, *loaded.policies)
    return {resource.address: resource for resource in both}


def _is_alike(one: Resource, other: Resource) -> bool:
    """Whether both certainly mean the same: most resources of two loads share their specs (`Known`)."""
    return one.spec is other.spec and all(getattr(one, name) == getattr(other, name) for name in _MEANT)


def meant(resource: Resource) -> dict[str, Any]:
    """Return the meaning of the resource, by the names of its fields."""
    return {name: getattr(resource, name) for name in _MEANT} | {
        "spec": meant_spec(resource),
        "references": {reference.address for reference in resource.references},
        "ignores": {replace(ignore, path=()) for ignore in resource.ignores},
    }


def meant_spec(resource: Resource) -> dict[str, Any]:
    """Return the written fields of the spec: a default is managed only if it is written."""
    found: dict[str, Any] = resource.spec.model_dump(exclude_unset=True)
    return found


def _moved(policy: Resource | None, new: Mapping[Address, Resource]) -> Iterable[Address]:
    """Yield the addresses that a Moved manifest is about; an entry without an index means all of `count`."""
    if policy is None or not isinstance(policy.spec, MovedSpec):
        return
    for end in (policy.spec.source, policy.spec.target):
        yield end
        ordinal = 1
        while not end.ordinal and end._replace(ordinal=ordinal) in new:
            yield end._replace(ordinal=ordinal)
            ordinal += 1


_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
_NOTHING = Resource(Address("", ""), Spec(), Lifecycle(), "", {})
_MORE = sorted(meant(_NOTHING).keys() - {"spec"})
_RARE = attrgetter(*(name for name in _MORE if name != "lifecycle"))  # what most resources have nothing of
_NO_MORE = _RARE(_NOTHING)


def digest_resources(resources: Iterable[Resource]) -> str:
    """Return a SHA-256 in hex that does not depend on their order. File names count: records hold them."""
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
    given = [name for name in _MORE if (name, asked[name]) != ("grow", None)]  # as `_fields`
    return to_json([(name, _in_order(asked[name])) for name in given], fallback=_fields)


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields, without one that earlier versions do not have, where nobody wrote it."""
    return {name: held for name, held in asdict(value).items() if (name, held) != ("restart_within", None)}


@lru_cache(maxsize=1000)
def _of_lifecycle(lifecycle: Lifecycle) -> bytes:
    return _more(replace(_NOTHING, lifecycle=lifecycle))


def _in_order(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, Set) else value
