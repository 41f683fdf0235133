"""Sources of secret values: those that hold a credential of this program, and files that are missing."""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.model import Path, Resource
from reconciler.core.steps import SecretRef
from reconciler.kinds.roles import holds_secrets, secret_of
from reconciler.kinds.source import is_armored, source_ref
from reconciler.manifests.files import lies_in
from reconciler.manifests.revisions.sources import value_sources
from reconciler.policies import find_manifest_kinds
from reconciler.project.settings import ProjectSettings

if TYPE_CHECKING:
    from reconciler.manifests.revisions.revision import Revision


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


def missing_sources(
    config: ProjectSettings, resources: Iterable[Resource], at: "Revision | None"
) -> Iterator[Diagnostic]:
    """One warning for each file that a `file`, `age` or `sops` source names and that is not there.

    Only a warning: a file may be there only where apply runs. Of manifests at the revision `at`, also a
    file that the revision holds is there. No file is opened. In somebody else's change, only files of the
    project are looked for.
    """
    kinds = {name for name, kind in find_manifest_kinds().items() if holds_secrets(kind)}
    for resource in resources:
        if resource.address.kind not in kinds:
            continue
        for place, source in value_sources(resource.spec):
            if not source.is_given:
                continue
            path = (*place, *source.place)
            ref = source_ref(source, resource.written_in(*path))
            if ref.source not in ("file", "age", "sops") or (ref.source == "age" and is_armored(ref.name)):
                continue
            file = config.root / ref.name
            foreign = config.trusted is not None and not lies_in(file, config.root)
            if not foreign and not file.exists() and (at is None or not at.holds(ref.name)):
                absent = "no such file here" + (f", nor at {at.ref}" if at is not None else "")
                yield warning(
                    "source-missing",
                    f"`{resource.address}` takes a value from `{ref.name}`, but there is {absent}",
                    resource.span(*path),
                    help="check the path (from the manifest's folder), or provide the file where apply runs",
                )
