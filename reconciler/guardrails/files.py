"""Finds and reads the files of guardrails: of the working tree, or at a git revision."""

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.errors import ManifestError
from reconciler.guardrails.limit import Limit

if TYPE_CHECKING:  # a project without guardrails imports nothing for them
    from reconciler.manifests.load import Loaded, Reader
    from reconciler.manifests.revisions.revision import Revision

CASE = ".case.yaml"


def read_limits(
    patterns: Sequence[str], root: Path, at: "Revision | None" = None
) -> tuple[Sequence[Limit], Sequence[Diagnostic]]:
    """The guardrails in files that match `patterns`, which are relative to `root`, and the files' problems.

    `at`: the revision to read them at, instead of the working tree.
    """
    folders = list(dict.fromkeys(_folder(pattern) for pattern in patterns))
    there = [name for name in folders if (at.holds(name) if at else os.path.lexists(root / name))]
    if not there:
        return (), ()
    loaded = _load(patterns, there, root, at)
    return [
        Limit(
            resource.address.kind,
            resource.address.name,
            resource.spec.model_dump_json(by_alias=True, exclude_unset=True),
            span.place if (span := resource.span("metadata", "name")) is not None else resource.file,
        )
        for resource in (*loaded.resources, *loaded.policies)
    ], loaded.diagnostics


def require_limits(patterns: Sequence[str], root: Path, at: "Revision | None" = None) -> Sequence[Limit]:
    """As `read_limits`. Raises ManifestError where a file has an error."""
    limits, problems = read_limits(patterns, root, at)
    if has_errors(problems):
        where = f" at {at.ref}" if at is not None else ""
        raise ManifestError(f"the guardrails{where} have errors; nothing was changed", list(problems))
    return limits


def holds_guardrails(patterns: Sequence[str], file: str) -> bool:
    """Whether `file`, relative to the project's root, is one of theirs."""
    matches = any(fnmatchcase(file, pattern) for pattern in patterns)
    return matches and not file.endswith(CASE)  # a case of `policy test` may stand beside them


def _folder(pattern: str) -> str:
    """The part of a pattern without signs: a file, or a folder that is searched."""
    return "/".join(takewhile(lambda part: not set(part) & set("*?["), pattern.split("/"))) or "."


def without_guardrails(patterns: Sequence[str], read: "Reader") -> "Reader":
    """`read`, without the files of guardrails: a project may keep its manifests in the root."""
    begins = tuple("" if (folder := _folder(pattern)) == "." else folder for pattern in patterns)
    return _only(read, lambda name: not (name.startswith(begins) and holds_guardrails(patterns, name)))


def _load(patterns: Sequence[str], folders: Sequence[str], root: Path, at: "Revision | None") -> "Loaded":
    from reconciler.guardrails.kinds import find_guardrails
    from reconciler.manifests.files import read_files
    from reconciler.manifests.load import load

    read = at.read_files if at is not None else partial(read_files, within=root)
    matching = _only(read, partial(holds_guardrails, patterns))
    paths = [os.path.relpath(root / folder) for folder in folders]
    return load(paths, root=root, kinds=find_guardrails(), read=matching, apart="")


def _only(read: "Reader", wanted: Callable[[str], bool]) -> "Reader":
    """`read`, of the files whose names are `wanted`."""

    def reader(
        paths: Sequence[str],
        root: Path,
        stdin: Callable[[], bytes] | None,
        problems: list[Diagnostic],
        apart: str,
    ) -> Iterator[tuple[str, bytes]]:
        """As `read_files`."""
        return ((name, data) for name, data in read(paths, root, stdin, problems, apart) if wanted(name))

    return reader
