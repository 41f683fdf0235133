"""The manifests that a verb is about: of the working tree or a git revision, in the chosen environment."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.reporter import Reporter
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import OnService
from reconciler.manifests.files import STDIN, read_files
from reconciler.manifests.load import Loaded, load
from reconciler.manifests.validation.loader import Effective
from reconciler.pipeline.project import Desired
from reconciler.pipeline.settings import ProjectSettings, refuse_unknown_environment
from reconciler.pipeline.source_texts import SourceTexts
from reconciler.policies.moved import MovedSpec

if TYPE_CHECKING:
    from reconciler.manifests.revisions.changed import Changed
    from reconciler.manifests.revisions.revision import Revision


def load_desired(
    paths: Sequence[str],
    found: ProjectSettings,
    texts: SourceTexts,
    reporter: Reporter,
    *,
    ref: str | None = None,
    changed_since: str | None = None,
) -> Desired:
    """The manifests at `paths`, or at the configured ones. Raises ManifestError when they hold errors.

    `ref`, `changed_since`: see `read_manifests`.
    """
    found_manifests = read_manifests(
        paths, found, texts, ref=ref, changed_since=changed_since, reporter=reporter
    )
    loaded, focus = found_manifests.loaded, found_manifests.focus
    if has_errors(loaded.diagnostics):
        raise ManifestError("the manifests hold errors; nothing was changed", loaded.diagnostics)
    if focus is not None:
        count = sum(resource.address in focus for resource in loaded.resources)
        reporter.note(
            f"{count} of {len(loaded.resources)} resources changed since {changed_since}, "
            "or depend on what did"
        )
    return Desired(
        loaded.resources,
        loaded.diagnostics,
        found_manifests.selected,
        loaded.policies,
        focus,
        found_manifests.declared,
        found_manifests.declared.moved if paths else None,
    )


def load_policies(found: ProjectSettings, texts: SourceTexts, reporter: Reporter) -> Sequence[Resource]:
    """What the configured manifests hold that owns no objects, such as providers, for verbs without PATHs."""
    return load_desired((), found, texts, reporter).policies


def load_service_of(
    address: Address, found: ProjectSettings, texts: SourceTexts, reporter: Reporter
) -> Sequence[Resource]:
    """The policies that calls about `address` may need: none unless another service holds its object."""
    kind = find_kinds().get(address.kind)
    elsewhere = kind is not None and kind.role(OnService) is not None
    return load_policies(found, texts, reporter) if elsewhere else ()


@dataclass(frozen=True, slots=True)
class Manifests:
    """`selected`: whether a record without a manifest belongs to the files given. `changed`: if asked for.

    `declared`: whether files that were not given hold a record's manifest.
    """

    loaded: Loaded
    selected: Callable[[StateRecord], bool]
    declared: "_Elsewhere"
    changed: "Changed | None" = None

    @property
    def focus(self) -> frozenset[Address] | None:
        """The addresses that the verb is about; None for all."""
        return self.changed.addresses if self.changed is not None else None

    @property
    def effective(self) -> list[Effective]:
        """The manifests that the verb is about, if they were kept."""
        if self.focus is None:
            return self.loaded.effective
        bases = {address._replace(ordinal=0) for address in self.focus}
        return [each for each in self.loaded.effective if each.address in bases]


def read_manifests(
    paths: Sequence[str],
    found: ProjectSettings,
    texts: SourceTexts,
    *,
    ref: str | None = None,
    changed_since: str | None = None,
    reporter: Reporter | None = None,
    keep: bool = False,
) -> Manifests:
    """Those at `paths`, or the configured ones. `texts` shows those of `ref` afterwards, if it is given.

    `changed_since`: what differs from where the working tree, or `ref`, left that revision. Raises
    ReconcilerError where git has no answer. `keep`: `Manifests.effective` is wanted.
    """
    given = given_paths(paths, found)
    if ref is None and changed_since is None:
        loaded = _load(given, found, None, texts.stdin, whole=not paths, reporter=reporter, keep=keep)
        return Manifests(loaded, _selector(given, found, None, whole=not paths), _Elsewhere(found, None))
    from reconciler.manifests.revisions.git import find_repository
    from reconciler.manifests.revisions.revision import fork_point, revision

    git = find_repository(found.root, found.variables)
    at = revision(git, ref) if ref is not None else None
    if at is None and git.is_bare():
        raise ReconcilerError(
            "a bare repository has no working tree to compare", help="say with --ref what to compare"
        )
    base = (
        fork_point(git, changed_since, at.commit if at is not None else "HEAD")
        if changed_since is not None
        else None
    )
    if at is not None and found.env:
        known = sorted({*at.folders(found.settings.overlays), *found.settings.environments})
        refuse_unknown_environment(found.env, known, found.settings.overlays, f" at {ref}")
    loaded = _load(given, found, at, texts.stdin, whole=not paths, reporter=reporter, keep=keep)
    if at is not None:
        texts.use(at.texts)
    selected = _selector(given, found, at, whole=not paths)
    if base is None:
        return Manifests(loaded, selected, _Elsewhere(found, at))
    from reconciler.manifests.revisions.changed import changed
    from reconciler.manifests.revisions.sources import SourceFiles
    from reconciler.pipeline.base_revision import settings_before, unseen_before

    then, problems = settings_before(found, base)
    before = _before(given_paths(paths, then), then, base, whole=not paths)
    loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *problems, *unseen_before(before, base)))
    files = SourceFiles(git, found.root, base, at)
    return Manifests(loaded, selected, _Elsewhere(found, at), changed(before, loaded, files.differ))


def overlay_path(found: ProjectSettings) -> str:
    """The folder of the environment's overlay, from the working directory."""
    return os.path.relpath(found.root / found.overlay)


def given_paths(paths: Sequence[str], found: ProjectSettings) -> list[str]:
    return list(paths) or [os.path.relpath(found.root / path) for path in found.settings.manifests]


def _load(
    given: Sequence[str],
    found: ProjectSettings,
    at: "Revision | None",
    stdin: Callable[[], bytes] | None = None,
    *,
    whole: bool,
    reporter: Reporter | None = None,
    keep: bool = False,
) -> Loaded:
    there = at.holds(found.overlay) if at is not None else (found.root / found.overlay).is_dir()
    return load(
        given,
        root=found.root,
        stdin=stdin,
        reporter=reporter,
        overlay=overlay_path(found) if found.env and there else None,
        apart=found.settings.overlays,
        whole=whole,
        read=at.read_files if at is not None else read_files,
        keep=keep,
    )


def _before(given: Sequence[str], found: ProjectSettings, base: "Revision", *, whole: bool) -> Loaded:
    """The manifests at `base`: none for an environment that did not exist then."""
    new = found.env and found.env not in found.settings.environments and not base.holds(found.overlay)
    return Loaded() if new else _load([path for path in given if path != "-"], found, base, whole=whole)


def _selector(
    given: Sequence[str], found: ProjectSettings, at: "Revision | None", *, whole: bool
) -> Callable[[StateRecord], bool]:
    folders = [*given, overlay_path(found)] if found.env and whole else given
    return partial(_selected, found.root, folders, at)


def _selected(root: Path, given: Sequence[str], at: "Revision | None", record: StateRecord) -> bool:
    """Whether the record's manifest would be among `given`: it stands there, or nowhere any more."""
    source = (root / record.source).resolve()
    if record.source == STDIN:
        return "-" in given
    there = at.holds(record.source) if at is not None else source.exists()
    return not there or any(source.is_relative_to(Path(path).resolve()) for path in given)


class _Declared(NamedTuple):
    """`mistaken`: by invalid documents, for all of a count; not `complete`: a file hides documents.

    `moved`: the Moved manifests, by the address that was left.
    """

    addresses: Collection[Address]
    mistaken: Collection[Address]
    complete: bool
    moved: Mapping[Address, str]


class _Elsewhere:
    """Whether a record's manifest stands in a file that was not given: in its own, or now in any.

    Files are read when that is asked, and each once.
    """

    def __init__(self, found: ProjectSettings, at: "Revision | None") -> None:
        self._found = found
        self._at = at
        self._known: dict[str, _Declared] = {}

    def __call__(self, record: StateRecord) -> bool:
        base = record.address._replace(ordinal=0)
        if record.source not in ("", STDIN):
            found = self._declared(record.source)
            if not found.complete or record.address in found.addresses or base in found.mistaken:
                return True
        found = self._declared("")
        return record.address in found.addresses or base in found.mistaken

    def moved(self, address: Address) -> str:
        """The Moved manifest among the configured ones that is about `address`, and its file; "" for none."""
        moved = self._declared("").moved
        return moved.get(address) or moved.get(address._replace(ordinal=0), "")

    def _declared(self, source: str) -> _Declared:
        """By a file, or by all configured ones."""
        if source not in self._known:
            paths = [os.path.relpath(self._found.root / source)] if source else []
            loaded = _load(given_paths(paths, self._found), self._found, self._at, whole=not source)
            addresses = frozenset(each.address for each in loaded.resources)
            valid = () if has_errors(loaded.diagnostics) else loaded.policies
            moved = {
                each.spec.source: f"`{each.address}` in {each.file}"
                for each in valid
                if isinstance(each.spec, MovedSpec)
            }
            self._known[source] = _Declared(addresses, loaded.claimed, loaded.complete, moved)
        return self._known[source]
