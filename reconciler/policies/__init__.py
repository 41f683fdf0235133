"""What manifests may say that owns no object. A module here with a `KIND` is found: no list to edit."""

from collections.abc import Mapping
from functools import cache

from reconciler.kinds import declared_in, find_kinds
from reconciler.kinds.manifest import ManifestKind
from reconciler.policies.base import Policy


@cache
def find_policies() -> Mapping[str, Policy]:
    """Every policy by name, in order of name."""
    return declared_in(__name__, Policy)


@cache
def find_manifest_kinds() -> Mapping[str, ManifestKind]:
    """All that `kind:` of a manifest may say, kinds and policies, in order of name."""
    return dict(sorted({**find_kinds(), **find_policies()}.items()))
