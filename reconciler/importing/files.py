"""The files of an import: its folder, the manifests that are declared already, and the new ones."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity, has_errors
from reconciler.core.errors import ManifestError, ReconcilerError, Refused
from reconciler.core.model import Address
from reconciler.importing.ownership import Entry, file_stem
from reconciler.manifests.files import name_of
from reconciler.manifests.load import Loaded, load
from reconciler.manifests.validation.envelope import API_VERSION
from reconciler.manifests.writing.replace import Replacement, prepare, put
from reconciler.manifests.writing.write import Commented, comment, modeline, write
from reconciler.moves.records import former_addresses
from reconciler.project.manifests import given_paths, overlay_path
from reconciler.project.settings import ProjectSettings

_HEAD = (
    "Imported from the platform. What is not written here has the platform's default, or is not known;",
    "apply does not change it until somebody writes it.",
)


class Present(Struct, frozen=True):
    """The manifests that are there, as the environment has them; their names are relative to `root`.

    `load`: loads them together with further paths. `elsewhere`: addresses that only other environments have.
    """

    root: Path
    load: Callable[[Sequence[str]], Loaded]
    loaded: Loaded
    elsewhere: frozenset[Address] = frozenset()


class Planned(Struct, frozen=True):
    """One file of an import, and the entries that it gets."""

    change: Replacement
    entries: Sequence[Entry]


# --- the folder ---


def default_folder(config: ProjectSettings) -> Path:
    """The configured folder of manifests. Raises ReconcilerError where none is configured, or a file is."""
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
    """Whether a plan reads the manifests in `folder`."""
    own = [str(config.root / config.overlay)] if config.env else []
    return any(is_below(folder, Path(path)) for path in (*given_paths((), config), *own))


def is_below(folder: Path, other: Path) -> bool:
    """Whether `folder` is `other`, or is in it."""
    return folder.resolve().is_relative_to(other.resolve())


def _refuse_overlay_of_another(config: ProjectSettings, folder: Path) -> None:
    """Raises ReconcilerError where `folder` is in the overlay of another environment."""
    overlays = (config.root / config.settings.overlays).resolve()
    if not is_below(folder, overlays) or is_below(folder, overlays / (config.env or ".none")):
        return
    name = next(iter(folder.resolve().relative_to(overlays).parts), "NAME")
    raise ReconcilerError(
        f"`{folder}` contains the overlay of environment `{name}`",
        help=f"pass --env {name}, or another --out DIR",
    )


def declared(config: ProjectSettings, folder: Path | None) -> Present:
    """Load the configured manifests and those in `folder`, where one is given.

    Raises ManifestError when they hold errors, since nobody can tell then which objects are new.
    """
    if folder is not None:
        _refuse_overlay_of_another(config, folder)
    chosen = "manifests" in config.settings.model_fields_set
    configured = [path for path in given_paths((), config) if chosen or os.path.lexists(path)]
    present = folder if folder is not None and folder.exists() else None
    paths = [path for path in configured if present or Path(path) != folder]
    if present and not (config.env and is_below(present, config.root / config.overlay)):
        paths.append(str(present))
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
    return Present(config.root, read, loaded, frozenset(there - here))


# --- the manifests to write ---


def arrange(new: Sequence[Entry], present: Present, out: Path) -> list[Planned]:
    """Plan the files of the entries, below `out`. Nothing is written.

    Raises Refused when they are not valid together with the present manifests.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in new:
        stem = entry.declared.place
        if not entry.live.kind.in_app:
            stem = f"org-{file_stem(stem) or 'unnamed'}"
        groups.setdefault(stem, []).append(entry)
    reserved: set[str] = set()
    planned = []
    for stem in sorted(groups):
        documents = [_document(entry) for entry in groups[stem]]
        remarks = [*_HEAD, *_never_returned(groups[stem])]

        def text(before: bytes | None, documents: Sequence[Commented] = documents) -> str:
            held = (before or b"").decode("utf-8-sig", errors="replace").splitlines()
            head = [line for line in remarks if comment(line) not in held]  # noqa: B023 - called at once
            if before is None:
                head.insert(0, modeline(out, present.root))
            return write(documents, head=head, follows=before is not None)

        planned.append(Planned(prepare(out, stem, text, reserved), groups[stem]))
    _validate(planned, present)
    return planned


def _document(entry: Entry) -> Commented:
    address = entry.address
    metadata = {"name": address.name}
    if address.app is not None:
        metadata["app"] = address.app
    if not entry.declared.skeleton and entry.live.kind.id_path[0] == "metadata":
        metadata["id"] = entry.live.id
    value: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": address.kind,
        "metadata": metadata,
        "spec": entry.spec,
    }
    value |= {"lifecycle": entry.lifecycle} if entry.lifecycle else {}
    return Commented(value, entry.comments, disabled=entry.declared.skeleton)


def _never_returned(entries: Sequence[Entry]) -> Iterator[str]:
    """Name the fields, by kind, that an adoption cannot know."""
    for kind in dict.fromkeys(entry.live.kind for entry in entries if not entry.declared.skeleton):
        names = ", ".join(f"`{field.name}`" for field in kind.fields if field.source == "record")
        if names:
            yield f"{kind.name}: the platform never shows {names}: unknown here, and never compared."


def _validate(planned: Sequence[Planned], present: Present) -> None:
    """Load the new texts from temporary files. Raises Refused, with the names of the files to be written."""
    meant = {}  # the name of the file to be written, by the name of the temporary one
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(planned):
            temporary = Path(folder) / f"{number:06}-{file.change.path.name}"
            temporary.write_text(file.change.added, encoding="utf-8")
            meant[name_of(str(temporary), present.root)] = name_of(str(file.change.path), present.root)
        loaded = present.load([folder])
    problems = [_renamed(item, meant) for item in loaded.diagnostics if item.severity is Severity.ERROR]
    if problems:
        raise Refused(
            "the objects that were found do not give valid manifests; nothing was written", problems
        )


def _renamed(problem: Diagnostic, meant: Mapping[str, str]) -> Diagnostic:
    """`problem` with the names of the files to be written in place of temporary ones."""

    def renamed(text: str) -> str:
        for temporary, file in meant.items():
            text = text.replace(temporary, file)
        return text

    notes, span = tuple(map(renamed, problem.notes)), problem.span
    if span is not None and span.file in meant:  # nobody can look at this place
        notes = (*filter(None, [problem.label]), f"in the text for {meant[span.file]}", *notes)
        span = None
    message, help = renamed(problem.message), renamed(problem.help)
    return replace(problem, message=message, span=span, notes=notes, help=help)


async def put_all(planned: Sequence[Planned]) -> None:
    """Write the files one after another; a cancellation takes effect between two of them."""
    for file in planned:
        await checkpoint()
        put(file.change)
