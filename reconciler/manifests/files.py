"""Finds the files that hold manifests, and reads them.

A file of sops among them holds values that manifests refer to, and declares nothing.
"""

import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Span, error, hide, warning
from reconciler.manifests.reading.refusals import MOST_BYTES

STDIN = "<stdin>"
SUFFIXES = (".yaml", ".yml")
SETTINGS_FILE = "reconcile.yaml"  # the project's own file may stand among its manifests
_WAYS_IN = (command("start"), command("import"), command("demo"))
_WAYS = (
    f"check the path; `{_WAYS_IN[0]}` writes a new project here, `{_WAYS_IN[1]}` manifests of what runs "
    f"already, and `{_WAYS_IN[2]}` a shop to try things on"
)
OVERLAYS = "overlays"  # the folder of all environments, below the project's root


def read_files(
    paths: Sequence[str],
    root: Path,
    stdin: Callable[[], bytes] | None,
    problems: list[Diagnostic],
    apart: str = "",
    *,
    within: Path | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every manifest file in `paths`, each file once, in sorted order per path.

    A path is a file, a pipe, a directory (searched for *.yaml and *.yml files, without hidden ones
    and the settings) or `-`. Devices are refused: some have no end, some act when they are opened. Names
    are relative to `root` where the file lies below it, else as given. The directory with the name
    `apart` is passed over where it lies below one that is given. Problems with files are added to
    `problems`. At most `refusals.MOST_BYTES` + 1 bytes of a file are read. `within`: a folder; no file
    outside of it is read, not by links either.
    """
    seen: set[tuple[int, int]] = set()
    for given in dict.fromkeys(paths):
        if given == "-":
            if stdin is None:
                problems.append(error("unreadable-file", "there is no standard input to read `-` from"))
            else:
                yield STDIN, stdin()
            continue
        name = name_of(given, root)
        if within is not None and not lies_in(given, within):
            problems.append(outside_root(name))
            continue
        if not os.path.lexists(given):
            is_new = name == "manifests" and not (root / SETTINGS_FILE).is_file()
            problems.append(
                error(
                    "missing-path",
                    f"there is no file or directory `{given}`",
                    Span(name, 1, 1, 1),
                    help=_WAYS if is_new else "check the path",
                    advice=_WAYS_IN if is_new else (),
                )
            )
            continue
        if not os.path.isdir(given):  # noqa: PTH112 (plain strings: a tree has many thousand of them)
            found = iter([(given, name)])
        else:
            known = len(problems)
            tree = list(_walk(given, name if name != "." else "", os.path.realpath(given), problems, apart))
            found = iter(tree)
            if not tree and len(problems) == known:
                problems.append(
                    warning(
                        "no-manifests",
                        f"`{given}` holds no *.yaml or *.yml file that is not hidden",
                        Span(name, 1, 1, 1),
                    )
                )
        for path, shown in found:
            try:
                data = _read(path, seen)
            except _NoFile:
                problems.append(_unreadable(shown, "is neither a file nor a pipe"))
            except OSError as problem:
                problems.append(_unreadable(shown, f"cannot be read: {problem.strerror or problem}"))
            else:
                if data is not None:
                    yield shown, data


def lies_in(path: str | Path, folder: Path) -> bool:
    """Whether `path` is in `folder` after all links in both are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def veiled(problem: Diagnostic) -> Diagnostic:
    """Return `problem` without any words of its file, which is not in the project."""
    message = "this line is not shown: the file is outside the project's root"
    return replace(hide(problem), message=message, label="", notes=(), help="", advice=())


def outside_root(name: str) -> Diagnostic:
    """Return the problem that the file `name` is not in the project, as --untrusted demands."""
    return error(
        "outside-root",
        f"`{name}` is outside the project's root, or a link leads out of it: it is not read",
        Span(name, 1, 1, 1, private=True),
        help="with --untrusted, only files of the project are read: move it there, or leave it out",
    )


def name_of(given: str, root: Path) -> str:
    """Return `given` relative to `root`, with `/`; unchanged if it is not below it."""
    absolute = Path(os.path.abspath(given))  # noqa: PTH100 (resolve would follow symlinks)
    base = Path(os.path.abspath(root))  # noqa: PTH100
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else given


def _unreadable(name: str, why: str) -> Diagnostic:
    return error("unreadable-file", f"`{name}` {why}", Span(name, 1, 1, 1))


class _NoFile(Exception):
    """A device or a socket."""


def _read(path: str, seen: set[tuple[int, int]]) -> bytes | None:
    """Return the file's first bytes; None if it was read before, under any name. Raises _NoFile."""
    mode = os.stat(path).st_mode  # noqa: PTH116 (see above)
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise _NoFile
    descriptor = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) in seen:
            return None
        seen.add((status.st_dev, status.st_ino))
        data = b""
        while len(data) <= MOST_BYTES:
            chunk = os.read(descriptor, min(MOST_BYTES + 1 - len(data), max(status.st_size + 1, 1 << 16)))
            data += chunk
            if not chunk or len(data) == status.st_size:  # which is 0 for a pipe
                break
        return data
    finally:
        os.close(descriptor)


def _walk(
    directory: str, name: str, tree: str, problems: list[Diagnostic], apart: str
) -> Iterator[tuple[str, str]]:
    """Yield path and name of every manifest below `directory`. No symbolic link may lead out of `tree`."""
    try:
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as problem:
        problems.append(_unreadable(name or directory, f"cannot be read: {problem.strerror or problem}"))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == SETTINGS_FILE:
            continue
        shown = f"{name}/{entry.name}" if name else entry.name
        if shown == apart:
            continue
        if entry.is_symlink() and (entry.name.endswith(SUFFIXES) or stat.S_ISDIR(_mode(entry))):
            real = os.path.realpath(entry.path)
            if os.path.commonpath([real, tree]) != tree:
                outside = error(
                    "symlink-outside",
                    f"the symbolic link `{shown}` leads out of the directory that was given",
                    Span(shown, 1, 1, 1, private=True),  # the line may be from a file of somebody else
                    help="name its target on the command line or in `manifests`",
                )
                problems.append(outside)
                continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, shown, tree, problems, apart)
        elif entry.name.endswith(SUFFIXES) and (
            entry.is_file(follow_symlinks=False) or _mode(entry) == 0 or stat.S_ISREG(_mode(entry))
        ):
            yield entry.path, shown
        elif entry.name.endswith(SUFFIXES) and not stat.S_ISDIR(_mode(entry)):
            problems.append(
                _unreadable(shown, "is not a file; pipes are read when they are named themselves")
            )


def _mode(entry: os.DirEntry[str]) -> int:
    """Return the mode of an entry, links followed; 0 if a link leads nowhere or to itself."""
    try:
        return entry.stat().st_mode
    except OSError:
        return 0


def is_of_sops(value: Any) -> bool:
    """Whether sops has written the document, so that it is not a manifest."""
    if not isinstance(value, dict) or "sops" not in value or "apiVersion" in value or "kind" in value:
        return False
    own = value["sops"]
    return isinstance(own, dict) and isinstance(own.get("mac"), str) and "version" in own


def holds_patches(value: dict[str, Any], kinds: Container[str]) -> bool:
    """Whether a key is an address: an encrypted overlay has to be reported, not passed over."""
    return any("/" in key and (key.partition("/")[0] in kinds or set(key) & set("*?")) for key in value)
