"""Situations of pages that no case file can hold: bytes, paths, settings, and what only an apply says."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reconciler.diagnostics import Diagnostic
from reconciler.errors import ManifestError
from reconciler.manifests.load import load
from reconciler.pipeline.apply import PlanRefused, refuse_unless_runnable
from reconciler.settings import find_settings
from tests.explain.pages import situation
from tests.kinds.case import MANIFEST, play

Act = Callable[[str, Path], Sequence[Diagnostic]]  # from the page's manifest and an empty folder

VOLUME = "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: %s, app: shop}\nspec: {size_gb: 10}\n"


def of_bytes(data: bytes) -> Act:
    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        (folder / MANIFEST).write_bytes(data)
        return load([str(folder / MANIFEST)], root=folder).diagnostics

    return act


def settings(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    (folder / "reconcile.yaml").write_text(manifest, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ManifestError) as failure:
        patch.chdir(folder)
        find_settings(Path(), {})
    return failure.value.diagnostics


def apply_without_a_word(manifest: str, folder: Path) -> Sequence[Diagnostic]:
    case = situation("delete-not-approved")
    assert case is not None
    plan = play(case, folder).plan
    assert plan is not None
    with pytest.raises(PlanRefused) as refused:
        refuse_unless_runnable(plan, ())
    return refused.value.diagnostics


ACTS: dict[str, Act] = {
    "bad-setting": settings,
    "control-character": of_bytes((VOLUME % "data\a").encode()),
    "delete-not-approved": apply_without_a_word,
}
