"""Sources of a controller whose newest commit may not be used."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from reconciler.controller.source import Source
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Diagnosed
from reconciler.project.settings import find_settings
from tests.explain.projects import Act
from tests.revisions.repository import ISOLATED

_AT = "2026-01-01T00:00:00+00:00"  # ids of commits are of their times, too


def _git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "GIT_AUTHOR_DATE": _AT, "GIT_COMMITTER_DATE": _AT, **ISOLATED}
    subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True)


def source(*, rewritten: bool) -> Act:
    """Fetch a branch that is signed by nobody, or that was rewritten since the first fetch."""

    def act(manifest: str, folder: Path) -> Sequence[Diagnostic]:
        (folder / "reconcile.yaml").write_text(manifest, encoding="utf-8")
        (folder / "allowed_signers").write_text("", encoding="utf-8")
        _git(folder, "init", "-q", "-b", "main")
        _git(folder, "remote", "add", "origin", ".")
        _git(folder, "add", "reconcile.yaml", "allowed_signers")
        _git(folder, "commit", "-q", "-m", "one")
        env = {"PATH": os.environ["PATH"], **ISOLATED}
        followed = Source(find_settings(folder, env), folder / ".reconcile" / "source")
        if rewritten:
            anyio.run(followed.fetch)
            _git(folder, "commit", "-q", "--amend", "-m", "another")
        with pytest.raises(Diagnosed) as refused:
            anyio.run(followed.fetch)
        return refused.value.diagnostics

    return act


ACTS: dict[str, Act] = {
    "source-rewritten": source(rewritten=True),
    "source-unsigned": source(rewritten=False),
}
