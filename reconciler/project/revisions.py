"""Compares the project with another git revision: before a change, or the trusted one.

With --untrusted, settings, the addresses of providers and the places that secret values come from are
those of a trusted revision (`ProjectSettings.trusted`). No value of a Secret is read: it is planned as
set where its place, or the file there, is another one, and else taken to be what is recorded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Severity, Span, warning
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, Resource
from reconciler.kinds.roles import secret_of
from reconciler.manifests.files import SETTINGS_FILE, read_files
from reconciler.manifests.load import Loaded
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.refusals import named
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.revisions.revision import Revision, revision
from reconciler.manifests.revisions.sources import SourceFiles, value_sources
from reconciler.planning.declared import Trusted
from reconciler.policies import find_manifest_kinds
from reconciler.policies.provider import ExtensionProviderSpec
from reconciler.project.sections import ENVIRONMENT, Settings
from reconciler.project.settings import PRIVATE, ProjectSettings, project_root

_UNSEEN = (
    "manifests that cannot be read there count as changed, and removed ones may be missed: also check a "
    "plan without --changed-since"
)


def settings_before(config: ProjectSettings, base: Revision) -> tuple[ProjectSettings, list[Diagnostic]]:
    """`config` with what `reconcile.yaml` said at `base` of manifests, overlays and environments' names.

    Without that file: what is so by default, or as now where there were no manifests then. With a warning
    where it cannot be read.
    """
    data, problems = base.read(SETTINGS_FILE), []
    if data is None:
        default = Settings()
        then = default if all(map(base.holds, default.manifests)) else None
    else:
        then = _paths_in(data)
        if then is None:
            problems.append(_broken(base, f"`{SETTINGS_FILE}` does not say where the manifests are"))
    if then is None:
        return config, problems
    kept = {name: getattr(then, name) for name in ("manifests", "overlays", "environments")}
    return replace(config, settings=config.settings.model_copy(update=kept)), problems


def _paths_in(data: bytes) -> Settings | None:
    """The settings of where manifests are.

    Nothing else in the text is looked at. None where the text does not say.
    """
    composed = compose(data, SETTINGS_FILE)
    value: Any = composed.documents[0].value if composed.documents else {}
    if not composed.complete or not isinstance(value, dict):
        return None
    paths = {name: value[name] for name in ("manifests", "overlays") if name in value}
    sections = value.get("environments")
    names = [name for name in sections if isinstance(name, str)] if isinstance(sections, dict) else []
    paths["environments"] = {name: {} for name in names if ENVIRONMENT.fullmatch(name) and name != BASE}
    try:
        return Settings.model_validate(paths)
    except ValidationError:
        return None


def unseen_before(before: Loaded, base: Revision) -> Iterator[Diagnostic]:
    """Warnings about manifests that `before`, read at `base`, does not show: one for each kind of reason."""
    errors = [item for item in before.diagnostics if item.severity is Severity.ERROR]
    missing = [item for item in errors if item.code == "missing-path"]
    broken = [item for item in errors if item.code != "missing-path"]
    if missing:
        yield warning("base-has-none", missing[0].message, help=_UNSEEN)
    if broken:
        span = broken[0].span
        place = f"{span.place}: " if span is not None else ""
        yield _broken(base, f"{place}{broken[0].message}")


def _broken(base: Revision, first: str) -> Diagnostic:
    """The warning about manifests at `base` that cannot be read. `first`: the first of the errors."""
    message = f"the manifests at {base.ref}, have errors: {first}"
    return warning("base-has-errors", message, help=_UNSEEN)


_CODE = "untrusted-change"


def compare_with_trusted(
    config: ProjectSettings, before: Loaded, loaded: Loaded, at: Revision | None
) -> tuple[Trusted, list[Diagnostic]]:
    """The parts of the trusted revision that are planned by, and a warning for each that the change ignores.

    `before`: the manifests at the trusted revision. `at`: where `loaded` is from, if not the working tree.
    """
    trusted = config.trusted
    assert trusted is not None
    old = {resource.address: resource for resource in (*before.resources, *before.policies)}
    files = SourceFiles(trusted.git, config.root, trusted, at)
    unchecked: set[Address] = set()
    found = [*_settings(config, at)]
    for resource in (*loaded.resources, *loaded.policies):
        known = old.get(resource.address)
        place = _place(resource)
        if isinstance(resource.spec, ExtensionProviderSpec):
            found += _provider(resource, known, trusted.ref)
        elif place is not None and (known is None or place != _place(known)):
            unchecked.add(resource.address)
            found.append(
                warning(
                    _CODE,
                    f"`{resource.address}` takes its value from a source that {trusted.ref} does not have: "
                    "the source is not read",
                    resource.span("spec", "value_from"),
                    help="check where the value comes from: apply will send it to the app",
                )
            )
        elif place is not None and known is not None and files.differ(known, resource):
            unchecked.add(resource.address)
    providers = tuple(policy for policy in before.policies if isinstance(policy.spec, ExtensionProviderSpec))
    return Trusted(providers, frozenset(unchecked)), found


def refuse_own_state(config: ProjectSettings) -> None:
    """Raises ReconcilerError where the change brings what would be taken for our own state."""
    head = revision(find_repository(config.root, config.variables), "HEAD")
    names = [PRIVATE]
    scheme, _, path = config.settings.state_url.partition(":")
    if scheme == "sqlite" and not PurePath(path).is_absolute():
        names.append(path)
    for name in names:
        if head.holds(name):
            raise ReconcilerError(
                f"`{name}` is part of the checkout: a state that comes with a change proves nothing",
                help="remove it from git, and keep the state where no change can overwrite it",
            )


def _place(resource: Resource) -> Any:
    """The place that the resource's secret value comes from; None for one without a value or a place."""
    if not all(source.is_given for _, source in value_sources(resource.spec)):
        return None
    return secret_of(find_manifest_kinds()[resource.address.kind], resource)


def _provider(resource: Resource, known: Resource | None, ref: str) -> Iterator[Diagnostic]:
    """Warnings about a provider that the trusted revision does not have, or has otherwise."""
    if known is None:
        yield warning(
            _CODE,
            f"`{resource.address}` is not at {ref}: nothing is sent to it",
            resource.span("metadata", "name"),
            help="check its address: apply will sign requests to it, and set its answers as secrets",
        )
        return
    fields = [
        name
        for name in type(resource.spec).model_fields
        if getattr(resource.spec, name) != getattr(known.spec, name)
    ]
    if _place(resource) != _place(known) and "signing_secret_from" not in fields:
        fields.append("signing_secret_from")  # the same words in another folder
    for name in fields:
        yield warning(
            _CODE,
            f"`{name}` of `{resource.address}` differs from {ref}: requests are sent as {ref} says",
            resource.span("spec", name) or resource.span("metadata", "name"),
        )


def _settings(config: ProjectSettings, at: Revision | None) -> Iterator[Diagnostic]:
    """Warnings about settings that differ from the trusted revision's."""
    trusted = config.trusted
    assert trusted is not None
    used = f"the settings are those of {trusted.ref}"
    nearest = project_root(Path.cwd())
    if at is None and nearest != config.root and nearest.is_relative_to(config.root):
        name = (nearest / SETTINGS_FILE).relative_to(config.root).as_posix()
        yield warning(_CODE, f"`{name}` is not at {trusted.ref}: {used}")
    before, now = trusted.read(SETTINGS_FILE), at.read(SETTINGS_FILE) if at is not None else None
    if at is None:
        file, root = str(config.root / SETTINGS_FILE), config.root
        now = next((data for _, data in read_files([file], root, None, [], within=root)), None)
    if before == now:
        return
    if before is None or now is None:
        there = "is not at " if before is None else "cannot be read as at "
        yield warning(_CODE, f"`{SETTINGS_FILE}` {there}{trusted.ref}: {used}", _at_begin())
        return
    old, new = _document(before), _document(now)
    if new is None or old is None:
        yield warning(_CODE, f"`{SETTINGS_FILE}` cannot be compared with {trusted.ref}: {used}", _at_begin())
        return
    for path in _differing(old.value, new.value):
        # The span is private: somebody may have written a token or a password there.
        span = new.span(path) if path in new.spans else _at_begin()
        setting = f"`{named(path)}` of {SETTINGS_FILE}" if path else SETTINGS_FILE
        yield warning(_CODE, f"{setting} differs from {trusted.ref}: {used}", span)


def _document(data: bytes) -> Document | None:
    """The only document in `data`; None where it has another shape."""
    composed = compose(data, SETTINGS_FILE)
    only = composed.documents[0] if composed.complete and len(composed.documents) == 1 else None
    return only if only is not None and isinstance(only.value, dict) else None


def _differing(old: Any, new: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths at which the two values differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys(chain(new, old)):
            if key in old and key in new:
                yield from _differing(old[key], new[key], (*path, key))
            else:
                yield (*path, key)
    elif old != new or type(old) is not type(new):
        yield path


def _at_begin() -> Span:
    """The begin of the settings, for what has no place in them."""
    return Span(SETTINGS_FILE, 1, 1, 1, private=True)
