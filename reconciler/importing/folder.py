"""The folder that an import writes into, and what is declared already, there and elsewhere."""

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ManifestError, ReconcilerError
from reconciler.core.model import Address
from reconciler.manifests.load import Loaded, load
from reconciler.moves.records import former_addresses
from reconciler.project.manifests import given_paths, overlay_path
from reconciler.project.settings import ProjectSettings


def default_folder(config: ProjectSettings) -> Path:
    paths = given_paths((), config)
    if not paths or (os.path.lexists(paths[0]) and not Path(paths[0]).is_dir()):
        raise ReconcilerError(
            f"the configured manifests `{paths[0]}` are not a directory"
            if paths
            else "no manifests are configured",
            help="pass --out DIR",
        )
    return Path(paths[0])


def is_configured(folder: Path, config: ProjectSettings) -> bool:
    own = [str(config.root / config.overlay)] if config.env else []
    return any(is_below(folder, Path(path)) for path in (*given_paths((), config), *own))


def is_below(folder: Path, other: Path) -> bool:
    return folder.resolve().is_relative_to(other.resolve())


def _refuse_overlay_of_another(config: ProjectSettings, folder: Path) -> None:
    overlays = (config.root / config.settings.overlays).resolve()
    if not is_below(folder, overlays) or is_below(folder, overlays / (config.env or ".none")):
        return
    name = next(iter(folder.resolve().relative_to(overlays).parts), "NAME")
    raise ReconcilerError(
        f"`{folder}` contains the overlay of environment `{name}`",
        help=f"pass --env {name}, or another --out DIR",
    )


def declared(
    config: ProjectSettings, folder: Path
) -> tuple[Callable[[Sequence[str]], Loaded], Loaded, frozenset[Address]]:
    """The configured manifests and those in `folder`, as the environment has them.

    First what reads them together with further paths, then what they declare, and at last addresses that
    manifests have in other environments. Raises ManifestError when they hold errors: what is new cannot be
    told then.
    """
    _refuse_overlay_of_another(config, folder)
    chosen = "manifests" in config.settings.model_fields_set
    configured = [path for path in given_paths((), config) if chosen or os.path.lexists(path)]
    paths = [path for path in configured if Path(path) != folder or folder.exists()]
    if folder.exists() and not (config.env and is_below(folder, config.root / config.overlay)):
        paths.append(str(folder))
    apart = config.settings.overlays
    overlay = overlay_path(config) if config.env and (config.root / config.overlay).is_dir() else None

    def read(more: Sequence[str]) -> Loaded:
        return load([*paths, *more], root=config.root, overlay=overlay, apart=apart)

    loaded = read([])
    if has_errors(loaded.diagnostics):
        raise ManifestError("the manifests have errors; nothing was written", loaded.diagnostics)
    base = load(paths, root=config.root, apart=apart) if overlay is not None else loaded
    here = {resource.address for resource in loaded.resources}
    left = former_addresses(base.policies).values()
    there = {*(resource.address for resource in base.resources), *chain.from_iterable(left)}
    return read, loaded, frozenset(there - here)
