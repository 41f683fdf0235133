"""Files that secret values should come from, and that are not there."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.model import Resource
from reconciler.kinds.roles import holds_secrets
from reconciler.kinds.source import is_armored, source_ref
from reconciler.manifests.files import lies_in
from reconciler.manifests.revisions.sources import value_sources
from reconciler.pipeline.settings import ProjectSettings
from reconciler.policies import find_manifest_kinds

if TYPE_CHECKING:
    from reconciler.manifests.revisions.revision import Revision


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
