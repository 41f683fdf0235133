"""Runs the `git` program so that it only reads: no shell, hooks, filters, converters, pager or locks.

This is the only place that runs it. Its messages about repositories and names become advice. The ids of bytes
are computed without it, so that no filter runs and no line ends are converted.
"""

import hashlib
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.core.words import did_you_mean

TIMEOUT_S = 120
# Variables that git needs to read a clone. It gets no credential of ours and no secret value.
_NEEDED = frozenset(
    ("HOME", "LD_LIBRARY_PATH", "PATH", "SUDO_UID", "TMPDIR", "XDG_CONFIG_HOME")  # SUDO_UID: who root is
)
# Others of git's variables may name another repository, index or work tree, set by a hook or a tool.
_PASSED_ON = ("GIT_CONFIG", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH")
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    # A partial clone would fetch what is missing, by programs that its configuration names.
    "GIT_NO_LAZY_FETCH": "1",  # git 2.45 and newer
    "GIT_ALLOW_PROTOCOL": "",  # older ones: no way to fetch is allowed
    "GIT_NO_REPLACE_OBJECTS": "1",  # a commit is what its id says
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages are read below
}
_ALWAYS = (
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.warnAmbiguousRefs=true",  # read by `commit_of`
    # Files of a commit can look like a repository, with any branches that their author wants.
    "-c",
    "safe.bareRepository=explicit",  # git 2.38 and newer; for older ones, see `_refuse_planted`
)
# They compare and fetch nothing, and use no attributes (filters, converters); no alias replaces them.
_READING = frozenset({"cat-file", "config", "for-each-ref", "ls-files", "ls-tree", "merge-base", "rev-parse"})
_NAME = re.compile(r"[\w./+-]+")  # of a branch, a tag or a commit, without what git computes from it
_PARTIAL = ("promisor remote", "lazy fetching disabled", "fatal: transport ")


class Git(Struct, frozen=True):
    """The repository that holds `folder`. `prefix`: the folder's path in it, "" or ending with `/`."""

    folder: Path
    env: Mapping[str, str]
    timeout_s: float
    prefix: str = ""

    def run(
        self, *arguments: str, stdin: bytes = b"", allowed: Collection[int] = (0,)
    ) -> subprocess.CompletedProcess[bytes]:
        """Return the ended process, whose exit code is one of `allowed`.

        Raises ReconcilerError for another code, and for any code if git needs an object that a partial
        clone does not have.
        """
        if arguments[0] not in _READING:
            raise ValueError(f"git {arguments[0]} may run programs that a repository names")
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and names cannot be options
                ["git", *_ALWAYS, *arguments],  # noqa: S607 - the user's own git, by its name
                cwd=self.folder,
                env=self.env,
                input=stdin,
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except FileNotFoundError:
            raise ReconcilerError(
                "there is no program `git` here", help="install git, or leave out --ref and --changed-since"
            ) from None
        except subprocess.TimeoutExpired:
            raise ReconcilerError(f"git did not answer within {self.timeout_s:g} s") from None
        except OSError as failure:
            raise ReconcilerError(f"git cannot be run: {failure.strerror or failure}") from failure
        if done.returncode == 0:
            return done
        stderr = done.stderr.decode(errors="replace")
        if any(map(stderr.__contains__, _PARTIAL)):
            raise incomplete()
        if done.returncode not in allowed:
            raise _explained(stderr, self.folder)
        return done

    def text(self, *arguments: str) -> str:
        """Return git's output without the final line break."""
        return os.fsdecode(self.run(*arguments).stdout).removesuffix("\n")

    def commit_of(self, ref: str) -> str:
        """Return the id of the commit that `ref` names. Raises ReconcilerError if there is none, or several.

        A tag `origin/main`, which a fetch can bring along, would come before the branch of that name.
        """
        if not ref or ref.startswith("-") or not ref.isprintable():
            raise ReconcilerError(
                f"`{ref if ref.isprintable() else '?'}` is not a valid name of a git revision",
                help="name a branch, a tag or a commit, such as origin/main",
            )
        asked = ("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        done = self.run(*asked, allowed=(0, 1, 128))
        commit = os.fsdecode(done.stdout).strip()
        if b"' is ambiguous" in done.stderr and ref not in ("HEAD", commit):
            raise ReconcilerError(
                f"`{ref}` names several things here, such as a tag and a branch",
                help=f"name one of them in full, such as refs/remotes/{ref} or refs/heads/{ref}",
            )
        if done.returncode == 0:
            return commit
        raise ReconcilerError(f"git has no commit `{ref}` here", help=self._instead_of(ref))

    def merge_base(self, ref: str, commit: str, other: str) -> str:
        """Return the newest common ancestor of two commits. `ref`: the name that a person gave `commit`."""
        done = self.run("merge-base", commit, other, allowed=(0, 1))
        if done.returncode == 0:
            return os.fsdecode(done.stdout).split()[0]
        help = "name a revision that this branch comes from"
        if self.is_shallow():
            help = (
                "this clone has only a part of the history: fetch all of it (`fetch-depth: 0` in CI, or "
                "`git fetch --unshallow`)"
            )
        raise ReconcilerError(f"`{ref}` and what is checked out have no commit in common", help=help)

    def is_shallow(self) -> bool:
        """Whether the clone has only a part of the history."""
        return self.text("rev-parse", "--is-shallow-repository") == "true"

    def _instead_of(self, ref: str) -> str:
        if ref == "HEAD":
            return "the repository has no commit yet"
        if not _NAME.fullmatch(ref) or ".." in ref:
            return "name one commit, by a branch, a tag or an id; `git rev-parse` shows what a name means"
        names = self.text("for-each-ref", "--format=%(refname:short)").splitlines()
        hint = did_you_mean(ref, names)
        meant = f"{hint} " if hint else ""
        if self.is_shallow():
            return (
                f"{meant}this clone was fetched in part: fetch the other branch too (`fetch-depth: 0` in CI)"
            )
        return meant.strip() or f"fetch it first: git fetch origin {shlex.quote(ref.removeprefix('origin/'))}"


def incomplete() -> ReconcilerError:
    """Return the error for an object of the history that is not in this clone."""
    return ReconcilerError(
        "this clone does not have all files of that revision, and they are not fetched automatically",
        help="fetch them first: git fetch --refetch --no-filter (or clone without `--filter`)",
    )


def find_repository(folder: Path, env: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Git:
    """Return the repository around `folder`. Raises ReconcilerError, with advice, if git accepts none."""
    passed_on = {name: value for name, value in env.items() if name in _NEEDED or name.startswith(_PASSED_ON)}
    git = Git(folder, {**passed_on, **_SET}, timeout_s)
    _refuse_planted(Path(git.text("rev-parse", "--absolute-git-dir")).resolve(), folder.resolve())
    return replace(git, prefix=git.text("rev-parse", "--show-prefix"))


def _refuse_planted(git_dir: Path, folder: Path) -> None:
    """Raises ReconcilerError for a repository that files of a commit may pretend to be: it has no `.git`."""
    own = git_dir.name == ".git" and folder.is_relative_to(git_dir.parent)
    if not own and (git_dir.is_relative_to(folder) or folder.is_relative_to(git_dir)):
        raise _bare(str(git_dir))


def _bare(at: str) -> ReconcilerError:
    return ReconcilerError(
        f"git finds a bare repository at {at}, which files of the project can pretend to be",
        help="check what is there; --ref, --changed-since and --untrusted read the repository of a "
        "clone, by its `.git`",
    )


def _explained(stderr: str, folder: Path) -> ReconcilerError:
    if "dubious ownership" in stderr:
        at = stderr.partition("repository at '")[2].partition("'")[0] or str(folder)
        return ReconcilerError(
            f"git does not read the repository {at}: it belongs to another user",
            help=f"if you trust it: git config --global --add safe.directory {shlex.quote(at)}\n"
            "or let its owner run this; in a container, check who owns the mounted folder",
        )
    if "cannot use bare repository" in stderr:
        return _bare(stderr.partition("bare repository '")[2].partition("'")[0])
    if "not a git repository" in stderr:
        return ReconcilerError(
            f"{folder} is in no git repository",
            help="run inside a clone: --ref and --changed-since read its history",
        )
    first: Sequence[str] = [line for line in stderr.splitlines() if line.startswith(("fatal:", "error:"))]
    said = (first or stderr.splitlines() or ["no message"])[0]
    return ReconcilerError(f"git failed: {said.partition(': ')[2] or said}")


_CHUNK = 1 << 20


def blob_id(data: bytes, commit: str) -> str:
    """Return git's id of `data`, in the hash that the id `commit` has."""
    digest = _begun(len(data), commit)
    digest.update(data)
    return digest.hexdigest()


def blobs(contents: Iterable[bytes], commit: str) -> dict[str, bytes]:
    """Return `contents` by their ids."""
    return {blob_id(data, commit): data for data in contents}


def file_id(path: Path, commit: str) -> str | None:
    """Return the id of a file's bytes; None if no regular file can be read there."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            digest = _begun(status.st_size, commit)
            while data := file.read(_CHUNK):
                digest.update(data)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()


def _begun(size: int, commit: str) -> "hashlib._Hash":
    name = "sha1" if len(commit) == 40 else "sha256"
    return hashlib.new(name, b"blob %d\0" % size, usedforsecurity=False)


def _without_waiting(path: str, flags: int) -> int:
    """Open without waiting: a pipe may have no writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
