"""Objectives of the manifests before a change: no call weakens one, so no plan shows that it was."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, Resource
from reconciler.pipeline.base_revision import settings_before
from reconciler.pipeline.desired import read_manifests
from reconciler.pipeline.settings import ProjectSettings
from reconciler.pipeline.source_texts import SourceTexts

if TYPE_CHECKING:
    from reconciler.manifests.revisions.revision import Revision

AGE = "snapshot_max_age_h"


def ages_before(config: ProjectSettings, before: "Revision | None") -> Mapping[Address, int]:
    """How old the newest snapshot could be, by address. Raises ReconcilerError where it cannot be told."""
    if before is None:
        return {}
    then, problems = settings_before(replace(config, root=before.git.folder), before)
    loaded = read_manifests((), then, SourceTexts(then.root), ref=before.commit).loaded
    if problems or has_errors(loaded.diagnostics):
        raise ReconcilerError(
            f"the manifests at {before.ref} have errors, so it is not known whether `{AGE}` is weaker now",
            help="name a revision before the change that is valid: --base REF",
        )
    return {each.address: each.objectives[AGE] for each in loaded.resources if AGE in each.objectives}


def loosened(before: Mapping[Address, int], resources: Mapping[Address, Resource]) -> Collection[Address]:
    """The addresses whose newest snapshot may be older now, or as old as it likes."""
    return [
        address
        for address, age_h in before.items()
        if address in resources and resources[address].objectives.get(AGE, age_h + 1) > age_h
    ]
