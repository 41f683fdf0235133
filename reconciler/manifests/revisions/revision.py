"""Manifests at a git revision, and the difference between the working tree's and a commit's.

A revision is read from the repository's objects; no file is checked out.
"""

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from reconciler.core.context import UNKNOWN_ORIGIN, Origin
from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE, SUFFIXES, name_of, outside_root, read_files
from reconciler.manifests.reading.refusals import MOST_BYTES
from reconciler.manifests.revisions.git import Git, blob_id, file_id, find_repository, incomplete

_LINK, _SUBMODULE = "120000", "160000"
_LFS = b"version https://git-lfs.github.com/spec/"
_MOST_LINKS = 40


class _Entry(NamedTuple):
    mode: str
    id: str


@dataclass
class Revision:
    """One commit. `ref`: its name in messages. `texts`: the files read so far, by name as in diagnostics.

    `confined`: no manifest outside of the project's root is read. `git` is about that folder.
    `at_hand`: known contents by their id, for which git need not be asked.
    """

    git: Git
    ref: str
    commit: str
    texts: dict[str, bytes] = field(default_factory=dict)
    confined: bool = False
    at_hand: Mapping[str, bytes] = field(default_factory=dict)
    _tree: dict[str, _Entry] | None = None

    @property
    def tree(self) -> dict[str, _Entry]:
        """Return all files of the commit, by their path in the repository."""
        if self._tree is None:
            listing = self.git.run("ls-tree", "-r", "-z", "--full-tree", self.commit).stdout
            self._tree = dict(map(_entry, filter(None, listing.split(b"\0"))))
        return self._tree

    def holds(self, name: str) -> bool:
        """Whether there is a file or directory `name`, relative to the project's root."""
        path = self._follow(posixpath.normpath(self.git.prefix + name))
        return path is not None and (path in self.tree or self._is_folder(path))

    def id_of(self, path: str) -> str | None:
        """Return the id of the file at `path` in the repository; None if there is none."""
        real = self._follow(path)
        entry = self.tree.get(real) if real is not None else None
        return entry.id if entry is not None and entry.mode != _SUBMODULE else None

    def ids(self, paths: Sequence[str], root: Path, apart: str = "") -> dict[str, str]:
        """Return the ids of the files that `read_files` would read, by name."""
        found: dict[str, str] = {}
        for given in paths:
            for path, name in self._named(given, root, [], apart) if given != "-" else ():
                found.setdefault(name, self.tree[path].id)
        return found

    def read(self, name: str) -> bytes | None:
        """Return the bytes of the file `name`, relative to the project's root; None if there is none."""
        id = self.id_of(posixpath.normpath(self.git.prefix + name))
        return self._contents([id])[0] if id is not None else None

    def folders(self, name: str) -> list[str]:
        """Return the names of directories in the directory `name`, relative to the project's root."""
        real = self._follow(posixpath.normpath(self.git.prefix + name))
        if real is None:
            return []
        below = f"{real}/"
        inside = (path for path in self.tree if path.startswith(below))
        first = {path.removeprefix(below).partition("/")[0] for path in inside}
        return sorted(folder for folder in first if self._leads_to_folder(below + folder))

    def read_files(
        self,
        paths: Sequence[str],
        root: Path,
        stdin: Callable[[], bytes] | None,
        problems: list[Diagnostic],
        apart: str = "",
    ) -> Iterator[tuple[str, bytes]]:
        """Read as `files.read_files` does, from the commit instead of the working tree."""
        wanted: dict[str, str] = {}  # path in the repository → name
        for given in dict.fromkeys(paths):
            if given == "-":
                problem = error("unreadable-file", f"`-` is not part of the git revision {self.ref}")
                problems.append(problem)
                continue
            for path, name in self._named(given, root, problems, apart):
                wanted.setdefault(path, name)
        self._leave_out_large(wanted, problems)
        contents = self._contents([self.tree[path].id for path in wanted])
        for name, data in zip(wanted.values(), contents, strict=True):
            self.texts[name] = data
            if data.startswith(_LFS):
                message = f"`{name}` is kept by Git LFS: the repository holds only a pointer to its text"
                problems.append(error("lfs-pointer", message, help="keep manifests out of Git LFS"))
            else:
                yield name, data

    def _named(
        self, given: str, root: Path, problems: list[Diagnostic], apart: str
    ) -> Iterator[tuple[str, str]]:
        """Yield path and name of every manifest that `given` names."""
        name = name_of(given, root)
        path = self._path_of(given, root)
        real = self._follow(path)
        if self.confined and not f"{real}/".startswith(self.git.prefix):
            problems.append(outside_root(name))
            return
        if real is None or not (real in self.tree or self._is_folder(real)):
            message = f"there is no file or directory `{given}` at {self.ref}"
            problems.append(error("missing-path", message, help="check the path, or name another revision"))
        elif real in self.tree:
            if self._is_readable(real, name, problems):
                yield real, name
        else:
            found = [*self._below(real, name if name != "." else "", problems, apart)]
            if not found:
                message = f"`{given}` holds no *.yaml or *.yml file that is not hidden at {self.ref}"
                problems.append(warning("no-manifests", message))
            yield from found

    def _path_of(self, given: str, root: Path) -> str:
        """Return the path of a file in the repository. Raises ReconcilerError for a file outside of it."""
        relative = os.path.relpath(os.path.abspath(given), os.path.abspath(root))  # noqa: PTH100
        path = posixpath.normpath(self.git.prefix + relative)
        if path == ".." or path.startswith("../"):
            raise ReconcilerError(
                f"`{given}` is outside the git repository", help="--ref reads what is in it"
            )
        return path

    def _below(
        self, folder: str, name: str, problems: list[Diagnostic], apart: str
    ) -> Iterator[tuple[str, str]]:
        start = "" if folder == "." else f"{folder}/"
        inside = [path for path in self.tree if path.startswith(start)]
        for path in sorted(inside, key=lambda path: path.split("/")):
            rest = path.removeprefix(start)
            shown = f"{name}/{rest}" if name else rest
            parts = rest.split("/")
            if any(part.startswith(".") or part == SETTINGS_FILE for part in parts):
                continue
            if apart and shown.startswith(f"{apart}/"):
                continue
            mode = self.tree[path].mode
            if mode == _SUBMODULE:
                problems.append(_submodule(shown))
            elif path.endswith(SUFFIXES):
                real = self._follow(path)
                if mode == _LINK and (real is None or not real.startswith(start)):
                    problems.append(
                        error(
                            "symlink-outside",
                            f"the symbolic link `{shown}` leads out of the directory that was given",
                            help="name its target on the command line or in `manifests`",
                        )
                    )
                elif real is None or real not in self.tree:
                    if not self._is_folder(real or ""):
                        problems.append(_unreadable(shown, "no such file"))
                elif self._is_readable(real, shown, problems):
                    yield real, shown

    def _is_readable(self, path: str, name: str, problems: list[Diagnostic]) -> bool:
        if self.tree[path].mode == _SUBMODULE:
            problems.append(_submodule(name))
            return False
        return True

    def _is_folder(self, path: str) -> bool:
        return path == "." or any(file.startswith(f"{path}/") for file in self.tree)

    def _leads_to_folder(self, path: str) -> bool:
        real = self._follow(path)
        return real is not None and self._is_folder(real)

    def _follow(self, path: str) -> str | None:
        """Return `path` with all symbolic links followed; None if one leads out of the repository."""
        for _ in range(_MOST_LINKS):
            link = next(filter(self._is_link, _from_the_root(path)), None)
            if link is None:
                return path
            (target,) = self._contents([self.tree[link].id])
            there = posixpath.join(posixpath.dirname(link), os.fsdecode(target))
            path = posixpath.normpath(there + path.removeprefix(link))
            if path.startswith(("/", "../")) or path == "..":
                return None
        return None

    def _is_link(self, path: str) -> bool:
        return path in self.tree and self.tree[path].mode == _LINK

    def _leave_out_large(self, wanted: dict[str, str], problems: list[Diagnostic]) -> None:
        """Remove files from `wanted` that are too large to be manifests: the others are read together."""
        unseen = [item for item in wanted.items() if self.tree[item[0]].id not in self.at_hand]
        ids = "".join(f"{self.tree[path].id}\n" for path, _ in unseen).encode()
        sizes = self.git.run("cat-file", "--batch-check=%(objectsize)", stdin=ids).stdout.split(b"\n")
        for (path, name), size in zip(unseen, sizes, strict=False):
            if size.isdigit() and int(size) > MOST_BYTES:
                del wanted[path]
                message = f"`{name}` is larger than {MOST_BYTES >> 20} MiB"
                problems.append(error("file-too-large", message, help="split it into several files"))

    def _contents(self, ids: Sequence[str]) -> list[bytes]:
        """Return the bytes of objects as they are stored, without filters or line-end conversion."""
        unseen = [id for id in dict.fromkeys(ids) if id not in self.at_hand]
        read = dict(zip(unseen, self._read(unseen), strict=True))
        return [self.at_hand[id] if id in self.at_hand else read[id] for id in ids]

    def _read(self, ids: Sequence[str]) -> list[bytes]:
        if not ids:
            return []
        answer = self.git.run("cat-file", "--batch", stdin="".join(f"{id}\n" for id in ids).encode()).stdout
        found, at = [], 0
        for _ in ids:
            end = answer.index(b"\n", at)
            header = answer[at:end].split()
            if len(header) != 3:
                raise incomplete()
            size = int(header[2])
            found.append(answer[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return found


def revision(git: Git, ref: str, *, confined: bool = False) -> Revision:
    """Return the commit `ref`. Raises ReconcilerError if there is none."""
    return Revision(git, ref, git.commit_of(ref), confined=confined)


def fork_point(git: Git, ref: str, head: str = "HEAD") -> Revision:
    """Return the commit where `head` left `ref`: later commits of `ref` are not compared with."""
    commit = git.merge_base(ref, git.commit_of(ref), git.commit_of(head))
    return Revision(git, f"{commit[:12]}, where this left {ref}", commit)


def _entry(line: bytes) -> tuple[str, _Entry]:
    about, _, path = line.partition(b"\t")
    mode, _, id = about.decode().split()
    return os.fsdecode(path), _Entry(mode, id)


def _from_the_root(path: str) -> Iterator[str]:
    """Yield `a`, `a/b` and `a/b/c` for `a/b/c`."""
    parts = path.split("/")
    yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1))


def _submodule(name: str) -> Diagnostic:
    return error(
        "git-submodule",
        f"`{name}` is a submodule: its files are in another repository",
        help="run inside the submodule, or leave out --ref and --changed-since",
    )


def _unreadable(name: str, why: str) -> Diagnostic:
    return error("unreadable-file", f"`{name}` cannot be read: {why}")


def trusted_revision(start: Path, env: Mapping[str, str], ref: str) -> Revision:
    """Return the commit `ref`, confined to the project that it holds around `start`.

    `Revision.git` is about the project's root: the nearest folder from `start` upwards that holds
    `reconcile.yaml` at `ref`, or else `start`. Raises ReconcilerError if git has no answer.
    """
    git = find_repository(start, env)
    at = revision(git, ref)
    top, folder = Path(git.text("rev-parse", "--show-toplevel")), posixpath.normpath(git.prefix or ".")
    while at.id_of(posixpath.normpath(posixpath.join(folder, SETTINGS_FILE))) is None:
        if folder == ".":
            return replace(at, confined=True)
        folder = posixpath.dirname(folder) or "."
    return replace(at, git=find_repository(top / folder, env), confined=True)


_PATIENCE_S = 10  # for git; without its answer, the run continues


class WorkingTree:
    """Reads manifests as `read_files` does, and keeps the ids that git would give their bytes.

    The files that a run loaded are compared with the commit's list: nothing is read twice. Without git, or
    without a commit, the origin is unknown; no run fails for that.
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
        """Return the origin of the manifests read: of `paths`, and of the environment's folder `overlay`."""
        if self._head is None:
            return UNKNOWN_ORIGIN
        try:
            held = self._head.ids(paths, self._root, apart)
            if overlay is not None:
                held |= self._head.ids([overlay], self._root)
            same = self._read.items() <= held.items() and settings_as_at(self._head, self._root)
        except ReconcilerError:  # such as a path outside of the repository
            return Origin(self._head.commit, dirty=True)
        # A file with two names is read under one of them: only missing files count.
        gone = any(not (self._root / name).exists() for name in held.keys() - self._read.keys())
        return Origin(self._head.commit, dirty=gone or not same)


def settings_as_at(at: Revision, root: Path) -> bool:
    """Whether the project's settings are the same as in the commit."""
    return file_id(root / SETTINGS_FILE, at.commit) == at.id_of(at.git.prefix + SETTINGS_FILE)
