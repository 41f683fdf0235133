"""What a policy declares: a `kind:` of manifest that owns no object, and so has no record and no call."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reconciler.core.model import Resource
from reconciler.kinds.manifest import ManifestKind

Trait = tuple[str, ...]


class Policy(ManifestKind):
    """The contract of one policy. To add one, copy `retention.py`: what it does is its roles."""


class GivesValues(ABC):
    """A role: it gives values to the resources that it selects."""

    @abstractmethod
    def selects(self, spec: Any) -> Collection[Trait]:
        """What a resource must have, all of it, to be given values: its kind, and more of `traits`."""

    @abstractmethod
    def gives(self, spec: Any) -> Mapping[str, Any]:
        """What `spec` gives each resource that it selects, whatever the resource itself says.

        Names of fields of the resource's spec become defaults there; other names become objectives.
        """


def kind_trait(kind: str) -> Trait:
    return "kind", kind


def app_trait(app: str) -> Trait:
    return "app", app


def label_trait(name: str, value: str) -> Trait:
    return "label", name, value


def traits(resource: Resource) -> Iterator[Trait]:
    """What `resource` can be selected by."""
    yield kind_trait(resource.address.kind)
    if resource.address.app is not None:
        yield app_trait(resource.address.app)
    for name, value in resource.labels.items():
        yield label_trait(name, value)
