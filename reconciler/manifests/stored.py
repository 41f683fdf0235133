"""What files held when an earlier run composed them: in the user's own folder, and safe to lose.

One file a project, one line a manifest file: the digest of its bytes, a digest over the line, and the values
of its documents as JSON. All else is worked out again in each run, so an entry saves time and decides
nothing. Whatever is wrong with the folder, the file or an entry, it is as if it was not there.

Nobody but the user can read or write it. Who can write the user's own files is not kept out: they could as
well write the manifests.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path

import pydantic_core
import yaml

MOST_BYTES = 64 << 20  # of one project
MOST_BYTES_OF_ALL = 256 << 20
_PREFIX = "manifests-"
_HEX = 64  # characters of a digest
_BEGIN = 2 * (_HEX + 1)  # of the values in a line
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Stored:
    """The entries of one project, read when the first one is asked for. Values are JSON."""

    def __init__(self, folder: Path, project: Path, version: str) -> None:
        self._folder = folder
        self._name = _PREFIX + hashlib.sha256(os.fsencode(project)).hexdigest()[:32]
        self._version = version
        self._lines: dict[bytes, bytes] | None = None  # by the digest that they begin with

    def take(self, data: bytes) -> bytes | None:
        """The values of a file with the bytes `data`. They are given once."""
        if self._lines is None:
            self._lines = self._read()
        key = _key(data)
        line = self._lines.pop(key, b"")
        values = line[_BEGIN:]
        return values if line == self._line(key, values) else None

    def save(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep the values of `entries`, by the bytes of their files; then what nobody took, where it fits."""
        made = (self._line(_key(data), values) for data, values in entries)
        try:
            _make(self._folder)
            self._write(chain(made, (self._lines or {}).values()))
            _bound(self._folder, MOST_BYTES_OF_ALL)
        except OSError:  # an unwritable home, a full disk
            return

    def _read(self) -> dict[bytes, bytes]:
        try:
            header, *lines = _content(self._folder, self._name).split(b"\n")
        except OSError:
            return {}
        if header != self._header():
            return {}
        return {line[:_HEX]: line for line in lines if len(line) > _BEGIN}

    def _write(self, lines: Iterable[bytes]) -> None:
        import tempfile  # most runs only read

        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=self._folder)  # with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                left = MOST_BYTES - file.write(self._header())
                for line in lines:
                    left -= len(line) + 1
                    if left < 0:
                        break
                    file.write(b"\n" + line)
            Path(name).replace(self._folder / self._name)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _header(self) -> bytes:
        return f"values of manifests, composed by {self._version}".encode()

    def _line(self, key: bytes, values: bytes) -> bytes:
        digest = hashlib.sha256(self._version.encode())
        digest.update(key)
        digest.update(values)
        return b" ".join((key, digest.hexdigest().encode(), values))


def _key(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def stored(folder: Path | None, project: Path) -> Stored | None:
    """The entries of `project`, below the `folder` of all caches; None where none may be kept.

    Never inside of a checkout: what belongs to one user would be committed, or copied with it.
    """
    version = _version()
    if folder is None or version is None:
        return None
    try:
        real, inside = Path(os.path.realpath(project)), Path(os.path.realpath(folder))
        checkout = next((each for each in (real, *real.parents) if (each / ".git").exists()), real)
    except OSError:
        return None
    return None if inside.is_relative_to(checkout) else Stored(inside, real, version)


@cache
def _version() -> str | None:
    """The version of all that makes values of bytes: no other one reads them. None if nobody can tell."""
    digest = hashlib.sha256(f"{yaml.__version__} {pydantic_core.__version__}".encode())
    here = Path(__file__)
    sources = [here, here.with_name("known.py"), *sorted((here.parent / "reading").glob("*.py"))]
    try:
        for source in sources:
            digest.update(hashlib.sha256(source.read_bytes()).digest())
    except OSError:
        return None
    return digest.hexdigest()


def _make(folder: Path) -> None:
    """Make the folder, and the one of all caches. Raises OSError where it is not the user's alone."""
    for each in (folder.parent, folder):  # but no home
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
    _refuse_others(folder.lstat(), stat.S_IFDIR)


def _content(folder: Path, name: str) -> bytes:
    """Raises OSError for what is not the user's alone."""
    _refuse_others(folder.lstat(), stat.S_IFDIR)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(folder / name, flags), "rb") as file:
        status = os.fstat(file.fileno())
        _refuse_others(status, stat.S_IFREG)
        if status.st_size > MOST_BYTES:
            raise OSError("larger than it can be")
        return file.read()


def _refuse_others(status: os.stat_result, kind: int) -> None:
    own = status.st_uid == os.geteuid() and not status.st_mode & _OF_OTHERS
    if stat.S_IFMT(status.st_mode) != kind or not own:
        raise OSError("not the user's alone")


def _bound(folder: Path, most_bytes: int) -> None:
    """Remove the files that were written longest ago, until all together are not larger than `most_bytes`."""
    found = [(path.lstat(), path) for path in folder.glob(f"{_PREFIX}*")]
    left = most_bytes
    for status, path in sorted(found, key=lambda each: each[0].st_mtime_ns, reverse=True):
        left -= status.st_size
        if left < 0:
            path.unlink()
