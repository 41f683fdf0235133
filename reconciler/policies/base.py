"""The contract of a policy: a `kind:` of manifest that owns no object, and so has no record and no call."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from reconciler.core.model import Resource
from reconciler.kinds.manifest import ManifestKind

Trait = tuple[str, ...]


class Policy(ManifestKind):
    """The contract of one policy. To add one, copy `retention.py`: its effects are its roles."""


class GivesValues(ABC):
    """A role: it gives values to the resources that it selects."""

    @abstractmethod
    def selects(self, spec: Any) -> Collection[Trait]:
        """Return the traits that a resource must have, all of them, to be given values."""

    @abstractmethod
    def gives(self, spec: Any) -> Mapping[str, Any]:
        """Return the values for the selected resources, whatever these give themselves.

        Names of fields of the resource's spec become defaults there; other names become objectives.
        """


def kind_trait(kind: str) -> Trait:
    """Return the trait of resources of `kind`."""
    return "kind", kind


def app_trait(app: str) -> Trait:
    """Return the trait of resources of `app`."""
    return "app", app


def label_trait(name: str, value: str) -> Trait:
    """Return the trait of resources with this label."""
    return "label", name, value


def traits(resource: Resource) -> Iterator[Trait]:
    """Yield the traits by which `resource` can be selected: its kind, app and labels."""
    yield kind_trait(resource.address.kind)
    if resource.address.app is not None:
        yield app_trait(resource.address.app)
    for name, value in resource.labels.items():
        yield label_trait(name, value)
