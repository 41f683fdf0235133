"""Loads files as validated resources, and reports every problem of every file together."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from reconciler.core.diagnostics import Diagnostic, Severity
from reconciler.core.garbage import collector_paused
from reconciler.core.model import Address, Resource
from reconciler.core.reporter import Reporter
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.files import OVERLAYS, name_of, read_files
from reconciler.manifests.overlays.overlay import PATTERN_SIGNS, Overlays
from reconciler.manifests.reading.lines import Known
from reconciler.manifests.validation.loader import Effective, Loader
from reconciler.manifests.validation.problems import MOST_PROBLEMS
from reconciler.moves.records import with_former
from reconciler.policies import find_manifest_kinds


class Loaded(Struct, frozen=True):
    """The content of manifests, in the order of files and documents.

    `resources` are those with valid documents; with errors among `diagnostics`, others are missing.
    `policies` are resources of kinds that own no objects. `files` are the names of all files read, as in
    spans. `effective`: only if they were asked for. `claimed`: the addresses of invalid documents. Not
    `complete`: a file could not be read to its end, so that documents may be missing.
    """

    resources: list[Resource] = field(default_factory=list)
    policies: list[Resource] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()
    effective: list[Effective] = field(default_factory=list)
    claimed: Collection[Address] = ()
    complete: bool = True


Reader = Callable[
    [Sequence[str], Path, Callable[[], bytes] | None, list[Diagnostic], str], Iterable[tuple[str, bytes]]
]


def load(
    paths: Sequence[str],
    *,
    root: Path,
    stdin: Callable[[], bytes] | None = None,
    reporter: Reporter | None = None,
    kinds: Mapping[str, ManifestKind] | None = None,
    overlay: str | None = None,
    apart: str = OVERLAYS,
    whole: bool = True,
    read: Reader = read_files,
    keep: bool = False,
    known: Known | None = None,
) -> Loaded:
    """Read, check and complete all manifests in `paths` (see `files.read_files`).

    File names are relative to the project's `root`. The content of files raises nothing: see
    `Loaded.diagnostics`.

    `overlay`: the folder of an environment, below the folder `apart` of all environments. Its own
    manifests count, except where `paths` are only a part (not `whole`) that excludes them. `read`: the
    source of the bytes. `keep`: fill `Loaded.effective`. `known`: the values of files of earlier loads.
    """
    loader = Loader(
        find_manifest_kinds() if kinds is None else kinds, known if known is not None else Known(), keep=keep
    )
    with collector_paused():
        files = list(read(paths, root, stdin, loader.problems, apart))
        if overlay is not None:
            files = [file for file in files if not file[0].startswith(f"{apart}/")]
            layers = list(read([overlay], root, None, loader.problems, ""))
        else:
            layers = []
        (reporter or Reporter()).loading(len(files) + len(layers))
        if overlay is None:
            for name, data in files:
                loader.read(name, data)
        else:
            below = tuple(name_of(path, root) for path in paths)
            _read_layers(loader, files, layers, lambda file: whole or _is_below(file, below))
        resources, policies = loader.finish(check_overlays=whole)
    names = tuple(name for name, _ in (*files, *layers))
    order = {name: rank for rank, name in enumerate(names)}
    diagnostics = sorted(
        loader.problems,
        key=lambda item: (order.get(item.span.file, 0), item.span[1:4]) if item.span else (-1, (0, 0, 0)),
    )
    if overlay is not None:
        diagnostics = _each_once(diagnostics)
    return Loaded(
        resources,
        policies,
        tuple(_bounded(diagnostics)),
        names,
        loader.effective,
        loader.claimed,
        loader.complete,
    )


def _read_layers(
    loader: Loader,
    files: Sequence[tuple[str, bytes]],
    layers: Sequence[tuple[str, bytes]],
    belongs: Callable[[str], bool],
) -> None:
    """Read manifests with the patches of an environment, which are read first.

    `belongs`: whether manifests in a file of the environment count. All addresses must be known before
    any document is checked: where resources move to another app, names in others follow.
    """
    overlays = loader.overlays = Overlays(
        (document for file, data in layers for document in loader.compose(file, data, PATTERN_SIGNS)),
        loader.kinds,
    )
    documents = [document for file, data in files for document in loader.compose(file, data)]
    documents += (document for document in overlays.manifests if belongs(document.file))
    patched = [found for document in documents if (found := overlays.apply(document)) is not None]
    loader.relocation = with_former(overlays.relocation(), (document.value for document in patched))
    for document in patched:
        loader.document(document)


def _is_below(file: str, folders: Sequence[str]) -> bool:
    return any(folder == "." or file == folder or file.startswith(f"{folder}/") for folder in folders)


def _each_once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Report a wrong line of an overlay once for all its resources, and hidden if any of them hides it."""
    found: dict[tuple[Any, ...], Diagnostic] = {}
    for item in diagnostics:
        key = (item.code, item.span[:4] if item.span is not None else None, item.message)
        first = found.setdefault(key, item)
        if item.hidden and not first.hidden:
            found[key] = item
    return list(found.values())


def _bounded(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield at most MOST_PROBLEMS of one file and severity, then one problem that says there are more."""
    seen: Counter[tuple[str, Severity]] = Counter()
    for item in diagnostics:
        key = (item.span.file if item.span else "", item.severity)
        seen[key] += 1
        if seen[key] <= MOST_PROBLEMS:
            yield item
        elif seen[key] == MOST_PROBLEMS + 1:
            yield Diagnostic(
                "too-many-problems",
                item.severity,
                f"more than {MOST_PROBLEMS} {item.severity}s; the others are not shown",
                item.span,
                help="correct those above first",
            )
