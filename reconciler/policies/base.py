"""What a policy declares: a `kind:` of manifest that owns no object, and so has no record and no call."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from reconciler.core.model import Resource
from reconciler.kinds.manifest import ManifestKind


class Policy(ManifestKind):
    """The contract of one policy. To add one, copy `retention.py`: what it does is its roles."""


class GivesValues(ABC):
    """A role: it gives values to the resources that it selects."""

    @abstractmethod
    def gives(self, spec: Any, resource: Resource) -> Mapping[str, Any]:
        """What `spec` gives `resource`, whatever the resource itself says.

        Names of fields of the resource's spec become defaults there; other names become objectives.
        """
