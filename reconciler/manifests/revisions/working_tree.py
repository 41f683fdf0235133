"""What git says of the manifests of the working tree: the commit, and whether it holds what was read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from reconciler.core.context import UNKNOWN_ORIGIN, Origin
from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE, read_files
from reconciler.manifests.revisions.blobs import blob_id, file_id
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.revisions.revision import Revision, revision

_PATIENCE_S = 10  # for git; a run goes on without its answer


class WorkingTree:
    """Reads manifests as `read_files` does, and keeps the ids that git would give their bytes.

    What a run loaded is compared with what the commit holds: nothing is read twice, and git lists only.
    Without git, or without a commit, nothing is known; no run fails for that.
    """

    def __init__(self, root: Path, variables: Mapping[str, str], within: Path | None = None) -> None:
        self._root = root
        self._within = within
        self._read: dict[str, str] = {}
        self._head: Revision | None = None
        with suppress(ReconcilerError):
            self._head = revision(find_repository(root, variables, timeout_s=_PATIENCE_S), "HEAD")

    def read_files(
        self,
        paths: Sequence[str],
        root: Path,
        stdin: Callable[[], bytes] | None,
        problems: list[Diagnostic],
        apart: str = "",
    ) -> Iterator[tuple[str, bytes]]:
        """See `files.read_files`."""
        for name, data in read_files(paths, root, stdin, problems, apart, within=self._within):
            if self._head is not None:
                self._read[name] = blob_id(data, self._head.commit)
            yield name, data

    def origin(self, paths: Sequence[str], overlay: str | None, apart: str) -> Origin:
        """Of what was read: `paths`, with the folder `overlay` of the environment."""
        if self._head is None:
            return UNKNOWN_ORIGIN
        try:
            held = self._head.ids(paths, self._root, apart)
            if overlay is not None:
                held |= self._head.ids([overlay], self._root)
            same = self._read.items() <= held.items() and settings_as_at(self._head, self._root)
        except ReconcilerError:  # such as a path outside of the repository
            return Origin(self._head.commit, dirty=True)
        # A file with two names is read by one of them: only what is gone counts.
        gone = any(not (self._root / name).exists() for name in held.keys() - self._read.keys())
        return Origin(self._head.commit, dirty=gone or not same)


def settings_as_at(at: Revision, root: Path) -> bool:
    """Whether the project's settings are those of the commit."""
    return file_id(root / SETTINGS_FILE, at.commit) == at.id_of(at.git.prefix + SETTINGS_FILE)
