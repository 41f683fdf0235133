"""The manifests that a run was made from: those of the working tree, or of the revision that it recorded."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Resource
from reconciler.evidence.export import NotExportable
from reconciler.manifests.meaning import digest_resources
from reconciler.manifests.validation.loader import Effective
from reconciler.project.files import SourceTexts
from reconciler.project.manifests import read_manifests
from reconciler.project.settings import ProjectSettings
from reconciler.state.runs import PastRun


class MadeFrom(Struct, frozen=True):
    effective: Sequence[Effective]
    resources: Sequence[Resource]


def manifests_of(run: PastRun, paths: Sequence[str], config: ProjectSettings, texts: SourceTexts) -> MadeFrom:
    """Those at `paths`, or the configured ones. The run recorded their digest. Raises NotExportable."""
    began = run.began
    refs: list[str | None] = [None]
    if began.revision and not began.dirty:
        refs.append(began.revision)
    for ref in refs:
        try:
            loaded = read_manifests(paths, config, texts, ref=ref, keep=True).loaded
        except ReconcilerError:
            continue  # a revision that this clone has not
        if has_errors(loaded.diagnostics):
            continue
        if digest_resources((*loaded.resources, *loaded.policies)) == began.resources:
            return MadeFrom(loaded.effective, loaded.resources)
    raise NotExportable(
        "the manifests here are not those that it was made from",
        help=f"check out {began.revision} and try again" if began.revision else "check out those of its time",
    )
