"""Replaces or creates several files, all of them or none.

New manifests go into new files, or behind the content of an existing one: all its bytes stay, and are read as
before. A file that cannot be replaced as people expect (`replaceable`) is left alone.
"""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE, is_of_sops
from reconciler.manifests.reading.compose import compose

_UNCHANGED = "no file was changed"
_AGAIN = "run the command again"


class Replacement(Struct, frozen=True):
    """`data` for the file at `path`, which must still hold `before` (None: anything).

    `new`: nothing may exist at `path`. `added`: the new text in `data`, of an import.
    """

    path: Path
    data: bytes
    before: bytes | None = None
    new: bool = False
    added: str = ""

    @property
    def place(self) -> Path:
        """The file that gets `data`. A link is followed only if the file was read through it."""
        return self.path.resolve() if self.before is not None else self.path.parent.resolve() / self.path.name

    def moved_on(self) -> bool:
        """Whether somebody changed or created the file meanwhile."""
        if self.new:
            return os.path.lexists(self.path)
        return self.before is not None and self.path.read_bytes() != self.before


def replaceable(path: Path) -> str:
    """Return why the file at `path` cannot be replaced as people expect it; "" if it can.

    A symbolic link is followed: its target is what would be replaced.
    """
    try:
        status = path.stat()
    except OSError as failure:
        return f"cannot be inspected: {failure.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_nlink > 1:
        return f"is one of {status.st_nlink} hard links to one file, which would come apart"
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):  # the first also counts for root
        return "is read-only"
    return ""


def replace_files(replacements: Sequence[Replacement], *, mode: int | None = None) -> None:
    """Put all `data` in place, durably. `mode`: of the files; None keeps it, or takes the mode of new files.

    Temporary files are written first. Raises ReconcilerError if a file cannot be written or no longer
    holds `before`; then, as after an interrupt, all files are as they were.
    """
    with ExitStack() as aside:
        ready: list[tuple[Path, Path]] = []
        done: list[tuple[Path, Replacement]] = []
        change = None
        try:
            for change in replacements:
                target = change.place
                new = _written_aside(target, change.data, mode)
                aside.callback(new.unlink, missing_ok=True)
                ready.append((new, target))
            for change in replacements:
                if change.moved_on():
                    raise _changed_meanwhile(change)
            for (new, target), change in zip(ready, replacements, strict=True):
                done.append((target, change))
                if not change.new:
                    new.replace(target)
                elif not _named(new, target):
                    done.pop()  # the file there is somebody else's
                    raise _changed_meanwhile(change)
                _sync_folder(target.parent)
        except OSError as failure:
            _take_back(done, mode)
            at = f" {change.path}" if change is not None else ""  # the failure may name the temporary file
            raise ReconcilerError(f"cannot write{at}: {failure.strerror}", help=_UNCHANGED) from failure
        except BaseException:
            _take_back(done, mode)
            raise


def _changed_meanwhile(change: Replacement) -> ReconcilerError:
    return ReconcilerError(f"{change.path} changed meanwhile", help=f"{_UNCHANGED}; {_AGAIN}")


def _named(complete: Path, target: Path) -> bool:
    """Give the complete file its name; False if it is taken, which a rename would overwrite."""
    try:
        os.link(complete, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links: the name is taken first, with nothing in it
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        try:
            complete.replace(target)
        except BaseException:
            target.unlink()
            raise
    return True


def _take_back(done: Sequence[tuple[Path, Replacement]], mode: int | None) -> None:
    """Restore files, unless somebody has written to them since."""
    for target, change in done:
        with suppress(OSError):
            if target.read_bytes() != change.data:
                continue
            if change.new:
                target.unlink()
            elif change.before is not None:
                _written_aside(target, change.before, mode).replace(target)


def _written_aside(target: Path, data: bytes, mode: int | None) -> Path:
    """Return a complete hidden file in the folder of `target`: hidden files are not read as manifests."""
    import tempfile  # most commands write no file

    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is None and target.exists() and not target.is_symlink():
                status = target.stat()
                with suppress(PermissionError):
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                mode = stat.S_IMODE(status.st_mode)
            os.fchmod(file.fileno(), mode_of_new() if mode is None else mode)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def mode_of_new() -> int:
    """Return the mode of new files, by the umask."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MOST_FILES = 1000  # of one stem
_GO_ON = "files that were written before it are complete; when this is put right, run it again"


def prepare(
    folder: Path, stem: str, compose_text: Callable[[bytes | None], str], reserved: set[str]
) -> Replacement:
    """Return the change of `STEM.yaml` in `folder` that adds documents, or of STEM-2.yaml, … if it cannot.

    `compose_text` makes their text from the content of the file (None: a new file). `reserved`: names that
    are in use, in lower case; the chosen one is added.
    """
    present = {path.name.casefold(): path.name for path in folder.iterdir()} if folder.is_dir() else {}
    for number in range(1, _MOST_FILES):
        name = f"{stem}-{number}.yaml" if number > 1 else f"{stem}.yaml"
        lower = name.casefold()
        if name == SETTINGS_FILE or lower in reserved or present.get(lower, name) != name:
            continue  # on many disks, two names that differ in case only are one file
        path = folder / name
        before = path.read_bytes() if path.is_file() else None
        if os.path.lexists(path) and replaceable(path):
            continue
        added = compose_text(before)
        after = added.encode() if before is None else _appended(before, added)
        if _reads_as_before(before, after, added):
            reserved.add(lower)
            return Replacement(path, after, before, before is None, added)
    raise ReconcilerError(f"no file name for `{stem}` is free in {folder}", help="pass another --out DIR")


def _appended(before: bytes, added: str) -> bytes:
    """Return `before` with `added` behind it, with the line breaks of `before`."""
    newline = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if not before or before.endswith((b"\n", b"\xef\xbb\xbf")) else newline
    return before + (gap + added.replace("\n", newline)).encode()


def _reads_as_before(before: bytes | None, after: bytes, added: str) -> bool:
    """Whether the file holds its old documents, unchanged, and then the new ones.

    sops would refuse to decrypt a file of its own that is followed by something else.
    """
    old, new, whole = compose(before or b"", ""), compose(added.encode(), ""), compose(after, "")
    if any(is_of_sops(document.value) for document in old.documents):
        return False
    values = [document.value for document in (*old.documents, *new.documents)]
    return whole.complete and [document.value for document in whole.documents] == values


def put(change: Replacement) -> None:
    """Write one file, complete or not at all. Raises ReconcilerError, also when it was changed meanwhile."""
    try:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        replace_files([change])
    except OSError as failure:
        raise ReconcilerError(f"cannot write {change.path}: {failure.strerror}", help=_GO_ON) from failure
    except ReconcilerError as failure:
        raise ReconcilerError(failure.message, help=_GO_ON) from failure
