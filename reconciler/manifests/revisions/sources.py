"""The files that hold secret values, at a revision and in the working tree: compared, never shown.

Two files are the same if git would give their bytes the same id. A file that git does not hold on both sides
has no id, and is compared by its path only.
"""

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel

from reconciler.core.model import Path as Place
from reconciler.core.model import Resource
from reconciler.kinds.source import ValueSource, is_armored, source_ref
from reconciler.manifests.files import lies_in
from reconciler.manifests.revisions.git import Git, file_id
from reconciler.manifests.revisions.revision import Revision

_SCALARS = frozenset({bool, float, int, str})


def source_files(resource: Resource) -> list[str]:
    """Return the files of the resource's secret values, relative to the project's root.

    All arguments of a program are among them: any of them may be a file that it reads.
    """
    found: list[str] = []
    for place, source in value_sources(resource.spec):
        ref = source_ref(source, resource.written_in(*place, *source.place))
        if ref.source == "exec":
            found += map(str, ref.parts)
        elif ref.source in ("file", "sops") or (ref.source == "age" and not is_armored(ref.name)):
            found.append(ref.name)
    return found


def value_sources(value: Any, place: Place = ("spec",)) -> Iterator[tuple[Place, ValueSource]]:
    """Yield the sources of secret values in a spec, with their paths in the manifest."""
    if isinstance(value, ValueSource):
        yield place, value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            if inner is not None and type(inner) not in _SCALARS:  # most of what there is
                yield from value_sources(inner, (*place, field.alias or name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from value_sources(item, (*place, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from value_sources(item, (*place, index))


class SourceFiles:
    """Tells whether the files that two manifests of one resource name have different bytes.

    The files of `base` are compared with the working tree, where secrets are read, and with the revision
    `at` of the manifests, if there is one.
    """

    def __init__(self, git: Git, root: Path, base: Revision, at: Revision | None) -> None:
        self._git = git
        self._root = root
        self._base = base
        self._now: list[Callable[[str], str | None]] = []
        if at is not None:
            self._now.append(lambda path: at.id_of(self._in_repository(path)))
        self._now.append(self._id_here)
        self._known: dict[str, str | None] = {}

    def differ(self, old: Resource, new: Resource) -> bool:
        """Whether files of `old` and `new` have different bytes, in the working tree or at `at`."""
        before = source_files(old)
        after = source_files(new) if before or new.spec is not old.spec else before
        if not before and not after:
            return False
        was = [self._base.id_of(self._in_repository(path)) or path for path in before]
        return any([(id_of(path) or path) for path in after] != was for id_of in self._now)

    def _in_repository(self, path: str) -> str:
        """Return `path` as in git's trees; outside of the repository, it begins with `../`."""
        relative = os.path.relpath(self._root / path, self._root)
        return posixpath.normpath(self._git.prefix + relative)

    def _id_here(self, path: str) -> str | None:
        """Return the id of the working tree's file; None if git holds it neither here nor at the base."""
        if path not in self._known:
            ours = self._base.id_of(self._in_repository(path)) is not None or self._listed(path)
            ours = ours and lies_in(self._root / path, self._top)
            self._known[path] = file_id(self._root / path, self._base.commit) if ours else None
        return self._known[path]

    def _listed(self, path: str) -> bool:
        real = Path(os.path.realpath(self._root / path))
        return real.is_relative_to(self._top) and os.fsencode(real.relative_to(self._top)) in self._listing

    @cached_property
    def _top(self) -> Path:
        return Path(self._git.text("rev-parse", "--show-toplevel"))

    @cached_property
    def _listing(self) -> frozenset[bytes]:
        """All files that git holds or would hold; ignored ones are left out."""
        everywhere = replace(self._git, folder=self._top)
        shown = everywhere.run("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
        return frozenset(shown.split(b"\0"))
