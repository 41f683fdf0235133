"""The file of commits that a store could not take, for the next lease: JSON lines with digests.

Room for them is made when a lease is taken, so that a full disk does not stop them. When even that
place is gone, they go to the directory for temporary files. A line is overwritten in place and synced;
one that was torn while it was written was never acknowledged. A line that was taken in begins with a space.
Beside a state that is encrypted, a line shows its lineage only.
"""

import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import decode_entry, decode_record, encode_entry, encode_record
from reconciler.state.durable import make_private, sync
from reconciler.state.encryption.bucket import SealedBucket
from reconciler.state.store import JournalEntry

RESERVE_BYTES = 64 * 1024
ANY = "*"  # instead of a lineage
_TEMPORARY_PLACES = 4  # one that another process is writing at this moment is left to it

_BEGIN, _MIDDLE = b'{"digest":"', b'","commit":'
_BODY_AT = len(_BEGIN) + 64 + len(_MIDDLE)
_TAKEN_IN = b" "
# A flipped bit can make a NUL of these two only, and a NUL in a line means that it was torn.
_ESCAPES = {ord(" "): "\\u0020", ord("@"): "\\u0040"}


class Kept(Struct, frozen=True):
    """One commit as it was asked for, under a lease with these `epochs`."""

    lineage: str
    epochs: Mapping[str, int]
    entries: Sequence[JournalEntry]
    put: Sequence[StateRecord]
    remove: Sequence[Address]
    sealed: bool = False  # with a key that we do not have: nothing else is known of it


class Line(Struct, frozen=True):
    """A commit that was kept, and where."""

    place: Path
    offset: int
    kept: Kept


@dataclass(slots=True)
class Content:
    """All lines of one state in all places that can be read now, oldest first in each.

    `torn` says what was half-written; `foreign` are places that hold lines of other states too.
    """

    lines: list[Line] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    foreign: set[Path] = field(default_factory=set)
    descriptors: dict[Path, int] = field(default_factory=dict)


def encode(kept: Kept, seal: SealedBucket | None = None) -> bytes:
    """The line that holds a commit: a digest, and the commit as JSON, sealed where the state is encrypted."""
    body = json.dumps(
        {
            "lineage": kept.lineage,
            "epochs": dict(kept.epochs),
            "entries": [encode_entry(entry) for entry in kept.entries],
            "put": [[*record.address, record.serial, encode_record(record)] for record in kept.put],
            "remove": kept.remove,
        },
        separators=(",", ":"),
    )
    if seal is not None and (sealed := seal.seal_text(body)) is not None:
        body = json.dumps({"lineage": kept.lineage, "sealed": sealed}, separators=(",", ":"))
    text = body.translate(_ESCAPES).encode()
    return _BEGIN + hashlib.sha256(text).hexdigest().encode() + _MIDDLE + text + b"}\n"


def decode(text: bytes, seal: SealedBucket | None = None) -> list[Kept]:
    """The commits of lines that `encode` made. Raises ValueError naming the first that is another."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        kept = _decode(line, seal) if line.strip() else None
        if kept is not None:
            found.append(kept)
        elif line.strip():
            raise ValueError(f"line {number} is not what was written")
    return found


def reserve(place: Path) -> None:
    """Make room in `place`. Does nothing where there is room. Raises OSError."""
    make_private(place.parent)
    with _opened(place, os.O_CREAT) as descriptor:
        size = os.fstat(descriptor).st_size
        if size >= RESERVE_BYTES:
            return
        # Written, not only allocated: what is overwritten later needs no new block.
        _write(descriptor, bytes(RESERVE_BYTES - size), size)
        os.fsync(descriptor)
    sync(place.parent)


def keep(best: Path, kept: Kept, seal: SealedBucket | None = None) -> Path:
    """Add `kept`, durably, in the first place that takes it (`best`, if it can), which comes back.

    Raises OSError, the one of the best place, when none does.
    """
    line = encode(kept, seal)
    failures = []
    stem = Path(tempfile.gettempdir(), f"reconcile-{kept.lineage}-{os.geteuid()}")
    for place in (best, *(Path(f"{stem}-{number}.spool") for number in range(_TEMPORARY_PLACES))):
        try:
            with _opened(place, os.O_CREAT, temporary=place != best) as descriptor:
                _append(descriptor, line)
            sync(place.parent)
        except OSError as failure:
            failures.append(failure)
        else:
            return place
    raise failures[0]


def read(best: Path, lineage: str, seal: SealedBucket | None = None) -> Content:
    """What is kept for the state of `lineage`; of ANY, nothing but the places that hold something.

    Raises OSError.
    """
    with held(best, lineage, seal, lock=False) as content:
        return content


@contextmanager
def held(
    best: Path, lineage: str, seal: SealedBucket | None = None, *, lock: bool = True
) -> Iterator[Content]:
    """As `read`, and nobody adds to these places before the block ends, unless without a `lock`.

    A place that another process is writing to at this moment is left out.
    """
    content = Content()
    found = sorted(Path(tempfile.gettempdir()).glob(f"reconcile-{lineage}-{os.geteuid()}-*.spool"))
    with ExitStack() as stack:
        for place in (best, *found):
            try:
                descriptor = stack.enter_context(_opened(place, temporary=place != best, lock=lock))
            except OSError as failure:
                if place != best or isinstance(failure, FileNotFoundError | BlockingIOError):
                    continue
                raise
            content.descriptors[place] = descriptor
            _parse(place, descriptor, lineage, content, seal)
        yield content


def free(best: Path, content: Content, lines: Sequence[Line]) -> None:
    """Mark `lines`, of a `held` content, as taken in, durably. Room that nothing needs is given back."""
    for place, descriptor in content.descriptors.items():
        done = {line.offset for line in lines if line.place == place}
        for offset in done:
            _write(descriptor, _TAKEN_IN, offset)
        if done:
            os.fsync(descriptor)
        left = any(line.place == place and line.offset not in done for line in content.lines)
        if left or place in content.foreign:
            continue
        if place != best:
            place.unlink()
        elif _read(descriptor).strip(b"\0"):
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)


@contextmanager
def _opened(place: Path, create: int = 0, *, temporary: bool = False, lock: bool = True) -> Iterator[int]:
    """Raises OSError: BlockingIOError when another process has locked it, PermissionError for a `temporary`
    file that somebody else may have put there.
    """
    mode = os.O_RDWR if lock else os.O_RDONLY
    descriptor = os.open(place, mode | create | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        status = os.fstat(descriptor)
        if temporary and not (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and not stat.S_IMODE(status.st_mode) & 0o077
        ):
            raise PermissionError(f"others can access {place}")
        if lock:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(place.stat(), status):
                raise BlockingIOError(f"{place} was replaced")
        yield descriptor
    finally:
        os.close(descriptor)


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    content = _read(descriptor).rstrip(b"\0")
    # What a crash left half-written ends here, with the NUL that tells it from a damaged line.
    torn = b"" if not content or content.endswith(b"\n") else b"\0\n"
    try:
        _write(descriptor, torn + line, len(content))
        os.fsync(descriptor)
    except OSError:
        # Half a line must not stand before the next one: a later call may find room.
        _write(descriptor, bytes(max(0, min(size - len(content), len(torn + line)))), len(content))
        os.ftruncate(descriptor, size)
        raise


def _parse(place: Path, descriptor: int, lineage: str, content: Content, seal: SealedBucket | None) -> None:
    offset = 0
    for line in _read(descriptor).rstrip(b"\0").split(b"\n"):
        kept = _decode(line, seal)
        if kept is not None and kept.lineage == lineage and not kept.sealed:
            content.lines.append(Line(place, offset, kept))
        elif kept is not None:
            content.foreign.add(place)
        elif line.strip(b"\0") and not line.startswith(_TAKEN_IN):
            # Half-written or damaged: the intent that it would close is still open, and is settled.
            content.torn.append(f"{len(line)} bytes in {place}")
        offset += len(line) + 1


def _decode(line: bytes, seal: SealedBucket | None) -> Kept | None:
    """None for a line whose digest does not fit, or that was taken in. Of another state: only which."""
    digest, body = line[len(_BEGIN) : len(_BEGIN) + 64], line[_BODY_AT : line.rfind(b"}")]
    if not line.startswith(_BEGIN) or hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    fields = json.loads(body)
    if "sealed" in fields:
        text = seal.open_text(fields["sealed"]) if seal is not None else None
        if text is None:
            return Kept(fields["lineage"], {}, [], [], [], sealed=True)
        fields = json.loads(text)
    put = [
        decode_record(Address(*address), serial, body.encode()) for *address, serial, body in fields["put"]
    ]
    return Kept(
        fields["lineage"],
        fields["epochs"],
        list(map(decode_entry, fields["entries"])),
        put,
        [Address(*address) for address in fields["remove"]],
    )


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
