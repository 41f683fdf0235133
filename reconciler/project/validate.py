"""Manifests alone, as one environment has them or as several do: no platform, no state."""

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, has_errors
from reconciler.core.model import Address
from reconciler.kinds.roles import missing_origins
from reconciler.manifests.known import Known
from reconciler.project.desired import Manifests, read_manifests
from reconciler.project.files import SourceTexts
from reconciler.project.secret_sources import missing_sources
from reconciler.project.settings import ProjectSettings


class Validated(Struct, frozen=True):
    """What the manifests of one or several environments hold together. `differ`, `dependants`: see `Changed`.

    `diagnostics`: each once; one that is not of all environments says whose it is.
    """

    addresses: Collection[Address]
    files: Collection[str]
    diagnostics: tuple[Diagnostic, ...]
    differ: Collection[Address]
    dependants: Collection[Address]


def validate(
    paths: Sequence[str],
    configs: Sequence[ProjectSettings],
    texts: SourceTexts,
    ref: str | None = None,
    changed_since: str | None = None,
) -> Validated:
    """`configs`: the settings for each environment. The others: see `read_manifests`."""
    addresses: set[Address] = set()
    files: set[str] = set()
    differ: set[Address] = set()
    dependants: set[Address] = set()
    told: dict[Diagnostic, list[str]] = {}
    known = Known()
    for config in configs:
        manifests = read_manifests(paths, config, texts, ref=ref, changed_since=changed_since, known=known)
        addresses.update(resource.address for resource in manifests.loaded.resources)
        files.update(manifests.loaded.files)
        if manifests.changed is not None:
            differ.update(manifests.changed.differ)
            dependants.update(manifests.changed.dependants)
        for problem in _problems(manifests, config):
            told.setdefault(problem, []).append(config.env or BASE)
    diagnostics = tuple(
        problem if len(names) == len(configs) else _of(problem, names) for problem, names in told.items()
    )
    return Validated(addresses, files, diagnostics, differ, dependants - differ)


def _problems(manifests: Manifests, config: ProjectSettings) -> Sequence[Diagnostic]:
    """Each once."""
    loaded, found = manifests.loaded, manifests.loaded.diagnostics
    if not has_errors(found):
        missing = missing_sources(config, (*loaded.resources, *loaded.policies), manifests.at)
        found = (*found, *missing_origins(loaded.resources), *missing)
    return list(dict.fromkeys(found))


def _of(problem: Diagnostic, names: Sequence[str]) -> Diagnostic:
    whose = f"environment{'s' if len(names) > 1 else ''} {', '.join(names)}"
    return replace(problem, message=f"{problem.message} ({whose})")
