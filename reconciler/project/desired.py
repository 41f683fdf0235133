"""Loads and checks the manifests that a verb is about."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from reconciler.core.context import BASE, Origin
from reconciler.core.diagnostics import Diagnostic, has_errors, warning
from reconciler.core.errors import ManifestError
from reconciler.core.model import Address, Resource
from reconciler.core.reporter import Reporter
from reconciler.core.saved import Digest
from reconciler.core.steps import ManifestSet
from reconciler.core.words import counted
from reconciler.guardrails.limit import read_limits
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import OnService, holds_secrets, missing_origins
from reconciler.kinds.source import is_armored, source_ref
from reconciler.manifests.files import lies_in
from reconciler.manifests.meaning import digest_resources
from reconciler.manifests.reading.lines import Known
from reconciler.manifests.revisions.revision import Revision, WorkingTree, settings_as_at
from reconciler.manifests.revisions.sources import value_sources
from reconciler.planning.declared import Desired
from reconciler.policies import find_manifest_kinds
from reconciler.policies.drill import undrillable
from reconciler.project.files import SourceTexts
from reconciler.project.manifests import given_paths, overlay_path, read_manifests
from reconciler.project.settings import ProjectSettings
from reconciler.reports.report import ValidationReport


def load_desired(
    paths: Sequence[str],
    config: ProjectSettings,
    texts: SourceTexts,
    reporter: Reporter,
    *,
    ref: str | None = None,
    changed_since: str | None = None,
    targets: Sequence[Address] = (),
) -> Desired:
    """The manifests at `paths`, or at the configured ones. Raises ManifestError when they hold errors.

    `ref`, `changed_since`: see `read_manifests`. `targets`: see `Desired`.
    """
    tree = _working_tree(config) if ref is None else None
    found_manifests = read_manifests(
        paths, config, texts, ref=ref, changed_since=changed_since, reporter=reporter, tree=tree
    )
    loaded, focus = found_manifests.loaded, found_manifests.focus
    if not paths:  # of a part of the manifests, nobody knows what drills select
        refused = tuple(undrillable(loaded.policies, loaded.resources, config.settings.capabilities))
        loaded = replace(loaded, diagnostics=(*loaded.diagnostics, *refused))
    if has_errors(loaded.diagnostics):
        raise ManifestError("the manifests have errors; nothing was changed", loaded.diagnostics)
    if focus is not None:
        count = sum(resource.address in focus for resource in loaded.resources)
        reporter.note(
            f"{count} of {counted(len(loaded.resources), 'resource')} changed since {changed_since}, "
            "or depend on a changed one"
        )
    desired = Desired(
        loaded.resources,
        loaded.diagnostics,
        found_manifests.selected,
        loaded.policies,
        focus,
        found_manifests.declared,
        found_manifests.declared.moved if paths else None,
        found_manifests.trusted,
        _origin(found_manifests.at, tree, paths, config),
        ManifestSet(
            tuple(path if path == "-" else os.path.relpath(path, config.root) for path in paths),
            ref or "",
            Digest(partial(digest_resources, (*loaded.resources, *loaded.policies))),
        ),
    )
    return desired.with_targets(targets)


def origin_here(config: ProjectSettings) -> Origin:
    """The origin of the configured manifests, for verbs that do not load them."""
    tree = _working_tree(config)
    parts = [(given_paths((), config), config.settings.overlays)]
    parts += [([overlay_path(config)], "")] if config.env else []
    for paths, apart in parts:
        for _ in tree.read_files(paths, config.root, None, [], apart):
            pass
    return _origin(None, tree, (), config)


def _working_tree(config: ProjectSettings) -> WorkingTree:
    """The working tree. Of somebody else's change, nothing outside of the project is read."""
    return WorkingTree(config.root, config.variables, config.root if config.trusted is not None else None)


def _origin(
    at: Revision | None, tree: WorkingTree | None, paths: Sequence[str], config: ProjectSettings
) -> Origin:
    """The origin of what was read: the working tree, or a revision with the settings of the working tree."""
    if tree is not None:
        overlay = overlay_path(config) if config.env else None
        return tree.origin(given_paths(paths, config), overlay, config.settings.overlays)
    assert at is not None
    return Origin(at.commit, dirty=not settings_as_at(at, config.root))


def service_of_object(address: Address, load: Callable[[], Desired]) -> Sequence[Resource]:
    """The policies that calls about `address` may need: none unless another service holds its object.

    `load`: reads the configured manifests.
    """
    kind = find_kinds().get(address.kind)
    return load().policies if kind is not None and kind.role(OnService) is not None else ()


def validate(
    paths: Sequence[str],
    configs: Sequence[ProjectSettings],
    texts: SourceTexts,
    ref: str | None = None,
    changed_since: str | None = None,
) -> ValidationReport:
    """Check the manifests alone, without a platform or a state.

    `configs`: the settings for each environment. The others: see `read_manifests`. A diagnostic of several
    environments is there once; one that is not of all says whose it is.
    """
    environments = [config.env or BASE for config in configs]
    addresses: set[Address] = set()
    files: set[str] = set()
    differ: set[Address] = set()
    dependants: set[Address] = set()
    found: dict[Diagnostic, list[str]] = {}
    known = Known()
    for config in configs:
        manifests = read_manifests(paths, config, texts, ref=ref, changed_since=changed_since, known=known)
        if manifests.changed is not None:
            differ.update(manifests.changed.differ)
            dependants.update(manifests.changed.dependants)
        loaded, problems = manifests.loaded, manifests.loaded.diagnostics
        addresses.update(resource.address for resource in loaded.resources)
        files.update(loaded.files)
        if not has_errors(problems):
            missing = missing_sources(config, (*loaded.resources, *loaded.policies), manifests.at)
            problems = (*problems, *missing_origins(loaded.resources), *missing)
            problems += tuple(undrillable(loaded.policies, loaded.resources, config.settings.capabilities))
        for problem in dict.fromkeys(problems):
            found.setdefault(problem, []).append(config.env or BASE)
    at, config = manifests.at, configs[-1]
    _, of_guardrails = read_limits(config.written.guardrails, config.root, at or config.trusted)
    for problem in of_guardrails:
        found[problem] = environments
    diagnostics = []
    for problem, names in found.items():
        whose = f"environment{'s' if len(names) > 1 else ''} {', '.join(names)}"
        everywhere = len(names) == len(configs)
        message = problem.message if everywhere else f"{problem.message} ({whose})"
        diagnostics.append(replace(problem, message=message))
    return ValidationReport(
        resources=len(addresses),
        files=tuple(sorted(files)),
        environments=tuple(environments) if len(environments) > 1 else (),
        changed=tuple(sorted(map(str, differ))) if changed_since is not None else None,
        dependants=tuple(sorted(map(str, dependants - differ))),
        diagnostics=tuple(diagnostics),
    )


def missing_sources(
    config: ProjectSettings, resources: Iterable[Resource], at: Revision | None
) -> Iterator[Diagnostic]:
    """One warning for each file that a `file`, `age` or `sops` source names and that is not there.

    Only a warning: a file may be there only where apply runs. Of manifests at the revision `at`, also a
    file that the revision holds is there. No file is opened. In somebody else's change, only files of the
    project are looked for.
    """
    kinds = {name for name, kind in find_manifest_kinds().items() if holds_secrets(kind)}
    for resource in resources:
        if resource.address.kind not in kinds:
            continue
        for place, source in value_sources(resource.spec):
            if not source.is_given:
                continue
            path = (*place, *source.place)
            ref = source_ref(source, resource.written_in(*path))
            if ref.source not in ("file", "age", "sops") or (ref.source == "age" and is_armored(ref.name)):
                continue
            file = config.root / ref.name
            foreign = config.trusted is not None and not lies_in(file, config.root)
            if not foreign and not file.exists() and (at is None or not at.holds(ref.name)):
                absent = "no such file here" + (f", nor at {at.ref}" if at is not None else "")
                yield warning(
                    "source-missing",
                    f"`{resource.address}` takes a value from `{ref.name}`, but there is {absent}",
                    resource.span(*path),
                    help="check the path (from the manifest's folder), or provide the file where apply runs",
                )
