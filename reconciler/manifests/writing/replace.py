"""Files that get a new content whole or not at all, several of them together; also ones that are new.

New manifests go into files of their own, or behind what a file holds already: every byte of an existing file
stays, and all it declared is read as before. One that cannot be replaced as people expect (`replaceable`) is
left alone.
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
    """`data` for the file at `path`, which must still hold `before` (None: whatever).

    `new`: nothing may be at `path`. `added`: the text in `data` that is new, of an import.
    """

    path: Path
    data: bytes
    before: bytes | None = None
    new: bool = False
    added: str = ""

    @property
    def place(self) -> Path:
        """Where `data` goes. A link is followed only to what was read there before."""
        return self.path.resolve() if self.before is not None else self.path.parent.resolve() / self.path.name

    def moved_on(self) -> bool:
        """Whether somebody changed or made it meanwhile."""
        if self.new:
            return os.path.lexists(self.path)
        return self.before is not None and self.path.read_bytes() != self.before


def replaceable(path: Path) -> str:
    """Why the file at `path` cannot be replaced as people expect it; "" when it can.

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
    """Put each `data` in its place, durably. `mode`: None keeps each file's own, or gives it a new one's.

    Everything is written aside first. Raises ReconcilerError when a file cannot be written or no longer
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
                    done.pop()  # what is there is somebody else's
                    raise _changed_meanwhile(change)
                _sync_folder(target.parent)
        except OSError as failure:
            _take_back(done, mode)
            at = f" {change.path}" if change is not None else ""  # the failure may name the file beside it
            raise ReconcilerError(f"cannot write{at}: {failure.strerror}", help=_UNCHANGED) from failure
        except BaseException:
            _take_back(done, mode)
            raise


def _changed_meanwhile(change: Replacement) -> ReconcilerError:
    return ReconcilerError(f"{change.path} changed meanwhile", help=f"{_UNCHANGED}; {_AGAIN}")


def _named(complete: Path, target: Path) -> bool:
    """Give the complete file its name; False where the name is taken, which a rename would not tell."""
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
    """Unless somebody has written to it since."""
    for target, change in done:
        with suppress(OSError):
            if target.read_bytes() != change.data:
                continue
            if change.new:
                target.unlink()
            elif change.before is not None:
                _written_aside(target, change.before, mode).replace(target)


def _written_aside(target: Path, data: bytes, mode: int | None) -> Path:
    """A complete file beside `target`, hidden, so that nobody takes it for a manifest."""
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
    """The mode that a new file gets."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_MOST_FILES = 1000  # of one stem: beyond, something else is wrong
_GO_ON = "files that were written before it are complete; when this is put right, run it again"


def prepare(
    folder: Path, stem: str, compose_text: Callable[[bytes | None], str], reserved: set[str]
) -> Replacement:
    """The file `STEM.yaml` in `folder` with new documents, or STEM-2.yaml, … where that one cannot have them.

    `compose_text` gives them from what the file holds (None: a new file). `reserved`: names that are used
    already, in lower case; the one that is chosen is added.
    """
    present = {path.name.casefold(): path.name for path in folder.iterdir()} if folder.is_dir() else {}
    for number in range(1, _MOST_FILES):
        name = f"{stem}-{number}.yaml" if number > 1 else f"{stem}.yaml"
        folded = name.casefold()
        if name == SETTINGS_FILE or folded in reserved or present.get(folded, name) != name:
            continue  # on many disks, two names that differ in case only are one file
        path = folder / name
        before = path.read_bytes() if path.is_file() else None
        if os.path.lexists(path) and replaceable(path):
            continue
        added = compose_text(before)
        after = added.encode() if before is None else _appended(before, added)
        if _reads_as_before(before, after, added):
            reserved.add(folded)
            return Replacement(path, after, before, before is None, added)
    raise ReconcilerError(f"no file name for `{stem}` is free in {folder}", help="pass another --out DIR")


def _appended(before: bytes, added: str) -> bytes:
    """`before` with `added` behind it, in its own kind of line breaks."""
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
