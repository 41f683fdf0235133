"""Reads the manifests of the working tree or of a git revision, in the chosen environment.

Files that were not given are read only when somebody asks whether they declare a record: see
`_OtherManifests`.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, error, has_errors
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.model import Path as FieldPath
from reconciler.core.reporter import Reporter
from reconciler.core.steps import SecretRef
from reconciler.guardrails.limit import without_guardrails
from reconciler.kinds.roles import holds_secrets, secret_of
from reconciler.kinds.source import source_ref
from reconciler.manifests.files import STDIN, lies_in, read_files, veiled
from reconciler.manifests.load import Loaded, Reader, load
from reconciler.manifests.meaning import Changed, changed
from reconciler.manifests.reading.lines import Known
from reconciler.manifests.revisions.git import blobs, find_repository
from reconciler.manifests.revisions.revision import Revision, WorkingTree, fork_point, revision
from reconciler.manifests.revisions.sources import SourceFiles, value_sources
from reconciler.manifests.validation.loader import Effective
from reconciler.planning.declared import Trusted
from reconciler.policies import find_manifest_kinds
from reconciler.policies.moved import MovedSpec
from reconciler.project.files import SourceTexts
from reconciler.project.sections import ENVIRONMENT
from reconciler.project.settings import ProjectSettings


class Manifests(Struct, frozen=True):
    """The manifests that were read.

    `selected`: whether a record without a manifest belongs to the files given. `changed`: if asked for.

    `declared`: whether files that were not given hold a record's manifest. `at`: the revision that was read.
    `trusted`: see `Desired`.
    """

    loaded: Loaded
    selected: Callable[[StateRecord], bool]
    declared: "_OtherManifests"
    changed: Changed | None = None
    at: Revision | None = None
    trusted: Trusted | None = None

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
        return [manifest for manifest in self.loaded.effective if manifest.address in bases]


def read_manifests(
    paths: Sequence[str],
    config: ProjectSettings,
    texts: SourceTexts,
    *,
    ref: str | None = None,
    changed_since: str | None = None,
    reporter: Reporter | None = None,
    keep: bool = False,
    tree: WorkingTree | None = None,
    known: Known | None = None,
) -> Manifests:
    """Read the manifests at `paths`, or the configured ones.

    Afterwards `texts` shows those of `ref`, if given.

    `changed_since`: what differs from where the working tree, or `ref`, left that revision. Raises
    ReconcilerError where git has no answer. `keep`: `Manifests.effective` is wanted. `tree`: what reads the
    working tree, if somebody asks it afterwards. `known`: what files held that the run has read before.
    """
    known = known if known is not None else Known()
    given = given_paths(paths, config)
    at, base = _revisions(config, ref, changed_since)
    read = tree.read_files if tree is not None else None
    loaded = _load(
        given, config, at, known, texts.stdin, whole=not paths, reporter=reporter, keep=keep, read=read
    )
    loaded = _checked(loaded, config, None if at is not None else paths)
    if at is not None:
        texts.use(at.texts)
    differ = trusted = None
    if base is not None:
        from reconciler.project.revisions import settings_before, unseen_before

        then, problems = settings_before(config, base)
        before = _before(given_paths(paths, then), then, base, known, whole=not paths)
        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *problems, *unseen_before(before, base)))
        differ = changed(before, loaded, SourceFiles(base.git, config.root, base, at).differ)
    if config.trusted is not None:
        from reconciler.project.revisions import compare_with_trusted, refuse_own_state

        refuse_own_state(config)
        before = _before(given_paths((), config), config, config.trusted, known, whole=True)
        trusted, remarks = compare_with_trusted(config, before, loaded, at)
        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *remarks))
    other_manifests = _OtherManifests(config, at)
    selected = _selector(given, config, other_manifests, whole=not paths)
    return Manifests(loaded, selected, other_manifests, differ, at, trusted)


def _revisions(
    config: ProjectSettings, ref: str | None, changed_since: str | None
) -> tuple[Revision | None, Revision | None]:
    """The revision `ref`, and where it, or the working tree, left `changed_since`; None for what is None."""
    if ref is None and changed_since is None:
        return None, None
    git = find_repository(config.root, config.variables)
    at = revision(git, ref, confined=config.trusted is not None) if ref is not None else None
    head = at.commit if at is not None else "HEAD"
    base = fork_point(git, changed_since, head) if changed_since is not None else None
    if at is not None and config.env:
        config.refuse_unknown_environment(_environments_at(at, config), f" at {ref}")
    return at, base


def environments_at(config: ProjectSettings, ref: str | None) -> list[str]:
    """The environments that there are at a git revision; None for the working tree."""
    if ref is None:
        return config.environments()
    git = find_repository(config.root, config.variables)
    return _environments_at(revision(git, ref, confined=config.trusted is not None), config)


def _environments_at(at: Revision, config: ProjectSettings) -> list[str]:
    """The environments that the revision has folders for, and those of the settings."""
    folders = filter(ENVIRONMENT.fullmatch, at.folders(config.settings.overlays))
    return sorted({*folders, *config.settings.environments} - {BASE})


def overlay_path(config: ProjectSettings) -> str:
    """The folder of the environment's overlay, from the working directory."""
    return os.path.relpath(config.root / config.overlay)


def given_paths(paths: Sequence[str], config: ProjectSettings) -> list[str]:
    """The paths to read: `paths`, or those of the settings."""
    return list(paths) or [os.path.relpath(config.root / path) for path in config.settings.manifests]


def _load(
    given: Sequence[str],
    config: ProjectSettings,
    at: Revision | None,
    known: Known,
    stdin: Callable[[], bytes] | None = None,
    *,
    whole: bool,
    reporter: Reporter | None = None,
    keep: bool = False,
    read: Reader | None = None,
) -> Loaded:
    """Load the manifests of `given` from the working tree, or from the revision `at`, with the overlay."""
    confines = config.root if config.trusted is not None else None
    if at is not None:
        read = at.read_files
    read = read or partial(read_files, within=confines)
    if at is not None:
        there = at.holds(config.overlay)
    else:  # what only looks like a folder of ours is refused, not passed over
        folder = config.root / config.overlay
        there = folder.is_dir() if confines is None else os.path.lexists(folder)
    return load(
        given,
        root=config.root,
        stdin=stdin,
        reporter=reporter,
        overlay=overlay_path(config) if config.env and there else None,
        apart=config.settings.overlays,
        whole=whole,
        read=without_guardrails(config.written.guardrails, read),
        keep=keep,
        known=known,
    )


def _checked(loaded: Loaded, config: ProjectSettings, paths: Sequence[str] | None) -> Loaded:
    """`loaded` with what the settings object to, and without words of files that nobody here named.

    `paths`: those of the command line; None where all files are from a git revision.
    """
    declared = (*loaded.resources, *loaded.policies)
    # What is wrong already may leave a source without a value.
    found = () if has_errors(loaded.diagnostics) else own_credentials(declared, config)
    problems = loaded.diagnostics
    if paths is not None:
        beside = [Path(path) for path in paths if not os.path.abspath(path).startswith(f"{config.root}/")]  # noqa: PTH100
        folders = [config.root, *beside]
        problems = tuple(
            problem if _is_ours(problem, config.root, folders) else veiled(problem) for problem in problems
        )
    return replace(loaded, diagnostics=(*problems, *found))


_ABOUT_FILES = ("symlink-outside", "outside-root", "unreadable-file")  # they repeat nothing that a file holds


def _is_ours(problem: Diagnostic, root: Path, folders: Sequence[Path]) -> bool:
    """Whether the file that `problem` is about lies in one of `folders`, or is not there at all."""
    if (
        problem.code in _ABOUT_FILES
        or problem.span is None
        or problem.span.file == STDIN
        or not (root / problem.span.file).exists()
    ):
        return True
    return any(lies_in(root / problem.span.file, folder) for folder in folders)


def _before(
    given: Sequence[str], config: ProjectSettings, base: Revision, known: Known, *, whole: bool
) -> Loaded:
    """The manifests at `base`: none for an environment that did not exist then.

    What is the same as now, by the ids that git gives contents, is neither read nor composed again.
    """
    new = config.env and config.env not in config.settings.environments and not base.holds(config.overlay)
    if new:
        return Loaded()
    base = dataclasses.replace(base, at_hand=blobs(known.files(), base.commit))
    return _load([path for path in given if path != "-"], config, base, known, whole=whole)


def _selector(
    given: Sequence[str], config: ProjectSettings, other_manifests: "_OtherManifests", *, whole: bool
) -> Callable[[StateRecord], bool]:
    """Whether a record's manifest would be among `given`: it stands there, or nowhere any more."""
    folders, at = [*given, overlay_path(config)] if config.env and whole else given, other_manifests.at

    @cache  # thousands of records are of one file
    def selected(name: str) -> bool | None:  # None: its file is gone, and others were not given
        """Whether the file `name` is among those given; None: the file is gone, and others were not given."""
        if name == STDIN:
            return "-" in folders
        source = (config.root / name).resolve()
        there = at.holds(name) if at is not None else source.exists()
        if not there and not whole:
            return None
        return not there or any(source.is_relative_to(Path(path).resolve()) for path in folders)

    def is_selected(record: StateRecord) -> bool:
        """Whether the files given are those of `record`."""
        found = selected(record.source)
        return found if found is not None else not other_manifests.stands(record)

    return is_selected


class _Declared(NamedTuple):
    """`mistaken`: by invalid documents, for all of a count; not `complete`: a file hides documents.

    `moved`: the Moved manifests, by the address that was left.
    """

    addresses: Collection[Address]
    mistaken: Collection[Address]
    complete: bool
    moved: Mapping[Address, str]


class _OtherManifests:
    """Whether a record's manifest stands in a file that was not given: in its own, or now in any.

    Files are read when that is asked, and each once.
    """

    def __init__(self, config: ProjectSettings, at: Revision | None) -> None:
        self._found = config
        self.at = at
        self._known: dict[str, _Declared] = {}

    def __call__(self, record: StateRecord) -> bool:
        base = record.address._replace(ordinal=0)
        if record.source not in ("", STDIN):
            found = self._declared(record.source)
            if not found.complete or record.address in found.addresses or base in found.mistaken:
                return True
        return self.stands(record)

    def stands(self, record: StateRecord) -> bool:
        """Whether any of the configured files declares it, such as one that was moved."""
        found = self._declared("")
        return record.address in found.addresses or record.address._replace(ordinal=0) in found.mistaken

    def moved(self, address: Address) -> str:
        """The Moved manifest among the configured ones that is about `address`, and its file; "" for none."""
        moved = self._declared("").moved
        return moved.get(address) or moved.get(address._replace(ordinal=0), "")

    def _declared(self, source: str) -> _Declared:
        """The declarations of one file, or of all configured ones."""
        if source not in self._known:
            paths = [os.path.relpath(self._found.root / source)] if source else []
            loaded = _load(given_paths(paths, self._found), self._found, self.at, Known(), whole=not source)
            addresses = frozenset(resource.address for resource in loaded.resources)
            valid = () if has_errors(loaded.diagnostics) else loaded.policies
            moved = {
                policy.spec.source: f"`{policy.address}` in {policy.file}"
                for policy in valid
                if isinstance(policy.spec, MovedSpec)
            }
            self._known[source] = _Declared(addresses, loaded.claimed, loaded.complete, moved)
        return self._known[source]


def own_credentials(resources: Iterable[Resource], config: ProjectSettings) -> Iterator[Diagnostic]:
    """One error for each place in `resources` that takes a value from one of our own variables or files."""
    own = config.own_variables | config.own_files
    kinds = {name: kind for name, kind in find_manifest_kinds().items() if holds_secrets(kind)}
    for resource in resources:
        if resource.address.kind not in kinds or resource.address.ordinal:
            continue
        for place, name, real in _origins(resource, config.root):
            if real in own:
                yield error(
                    "own-credential",
                    f"`{resource.address}` takes a value from `{name}`, which holds a credential of this "
                    "program itself",
                    resource.span(*place),
                    help="put the value into another variable or file",
                )


def _origins(resource: Resource, root: Path) -> Iterator[tuple[FieldPath, str, str]]:
    """The place, name and real path of each file that a value comes from; of a variable the name twice."""
    for place, source in value_sources(resource.spec):
        if source.env is not None:
            yield (*place, "env"), source.env, source.env
        elif source.file is not None:
            path = source_ref(source, resource.written_in(*place, "file")).name
            yield (*place, "file"), path, os.path.realpath(root / path)
        elif not source.is_given:
            return
    ref = secret_of(find_manifest_kinds()[resource.address.kind], resource)
    for part in ref.parts if ref is not None and ref.source == "template" else ():
        if isinstance(part, SecretRef):
            yield ("spec", "value_from", "template"), part.name, part.name
