"""Secrets whose value would be a credential of this program itself: its token, its state's, its identity."""

from collections.abc import Collection, Iterable, Iterator

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Path, Resource
from reconciler.core.steps import SecretRef
from reconciler.kinds.roles import holds_secrets, secret_of
from reconciler.manifests.revisions.sources import value_sources
from reconciler.policies import find_manifest_kinds


def own_credentials(resources: Iterable[Resource], own: Collection[str]) -> Iterator[Diagnostic]:
    """One error for each place in `resources` that takes a value from one of the variables `own`."""
    kinds = {name: kind for name, kind in find_manifest_kinds().items() if holds_secrets(kind)}
    for resource in resources:
        if resource.address.kind not in kinds or resource.address.ordinal:
            continue
        for place, name in _variables(resource):
            if name in own:
                yield error(
                    "own-credential",
                    f"`{resource.address}` takes a value from `{name}`, which holds a credential of this "
                    "program itself",
                    resource.span(*place),
                    help="put the value into another variable",
                )


def _variables(resource: Resource) -> Iterator[tuple[Path, str]]:
    """Each variable that a value comes from, and the place that says so."""
    for place, source in value_sources(resource.spec):
        if source.env is not None:
            yield (*place, "env"), source.env
        elif not source.is_given:
            return
    ref = secret_of(find_manifest_kinds()[resource.address.kind], resource)
    for part in ref.parts if ref is not None and ref.source == "template" else ():
        if isinstance(part, SecretRef):
            yield ("spec", "value_from", "template"), part.name
