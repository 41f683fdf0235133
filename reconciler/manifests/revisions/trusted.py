"""The project as a revision has it that is trusted, whatever the working tree says."""

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.revisions.revision import Revision, revision


def trusted_revision(start: Path, env: Mapping[str, str], ref: str) -> Revision:
    """The commit `ref`, confined to the project that it holds around `start`.

    The project's root is the folder `Revision.git` is about: the nearest one from `start` upwards that holds
    `reconcile.yaml` at `ref`; `start` where none does. Raises ReconcilerError where git has no answer.
    """
    git = find_repository(start, env)
    at = revision(git, ref)
    top, folder = Path(git.text("rev-parse", "--show-toplevel")), posixpath.normpath(git.prefix or ".")
    while at.id_of(posixpath.normpath(posixpath.join(folder, SETTINGS_FILE))) is None:
        if folder == ".":
            return replace(at, confined=True)
        folder = posixpath.dirname(folder) or "."
    return replace(at, git=find_repository(top / folder, env), confined=True)
