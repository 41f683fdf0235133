"""The file of a bundle: one line with two digests, and after it a plain tar archive of named parts.

Every byte follows from the parts, so a changed byte cannot hide. The digests are of everything after the
line, and of the part `SHA256SUMS`, which holds the digest of each other part.
"""

import hashlib
import re
from collections.abc import Mapping

FORMAT = "reconcile-bundle-1"
SUMS = "SHA256SUMS"
MOST_BYTES = 64 << 20
FIRST_LINE, ARCHIVE = "the first line", "the archive"  # in messages, these are parts, too

PART = re.compile(
    r"SHA256SUMS|head\.json|plan\.json|rehearsal\.json"
    r"|approvals/\d{2}\.(?:statement|signature)|journal/\d{3}-\d{8}\.row"
)
_LINE = re.compile(rb"reconcile-bundle-1 ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_BLOCK = 512


class Damaged(Exception):
    """`part`: the one that is not as it was written."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part
        self.why = why


def digest(data: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def pack(parts: Mapping[str, bytes]) -> bytes:
    """Return the file with `parts` and their digests."""
    sums = _sums(parts)
    archive = _tar({SUMS: sums, **parts})
    return f"{FORMAT} {digest(archive)} {digest(sums)}\n".encode() + archive


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the parts of a file that `pack` made, without the digests. Raises Damaged for any other file."""
    line = _LINE.match(data)
    if line is None:
        raise Damaged(FIRST_LINE, f"it is not that of a bundle ({FORMAT})")
    archive = data[line.end() :]
    of_archive, of_sums = line[1].decode(), line[2].decode()
    parts = _untar(archive)
    if SUMS not in parts:
        raise Damaged(ARCHIVE, f"there is no {SUMS}")
    whole = digest(archive) == of_archive
    if digest(parts[SUMS]) != of_sums:
        raise Damaged(FIRST_LINE if whole else SUMS, "its digest is another one")
    _compare(parts)
    if not whole:
        canonical = _tar(parts) == archive
        raise Damaged(FIRST_LINE if canonical else ARCHIVE, "its digest is another one")
    if _tar(parts) != archive:
        raise Damaged(ARCHIVE, "it is not as a bundle is written")
    found = {name: content for name, content in parts.items() if name != SUMS}
    if _sums(found) != parts[SUMS]:
        raise Damaged(SUMS, "it is not as a bundle writes it")
    return found


def _sums(parts: Mapping[str, bytes]) -> bytes:
    return "".join(f"{digest(content)}  {name}\n" for name, content in sorted(parts.items())).encode()


def _compare(parts: Mapping[str, bytes]) -> None:
    """Raises Damaged where `SHA256SUMS` does not fit the parts."""
    known = {}
    for line in parts[SUMS].decode("ascii", "replace").splitlines():
        of_part, _, name = line.partition("  ")
        known[name] = of_part
    for name, content in parts.items():
        if name != SUMS and name in known and known[name] != digest(content):
            raise Damaged(name, "its digest is another one")
    if known.keys() != parts.keys() - {SUMS}:
        raise Damaged(ARCHIVE, f"its parts are not those that {SUMS} names")


def _tar(parts: Mapping[str, bytes]) -> bytes:
    """Return a ustar archive in the order of names, without owners and times."""
    blocks = []
    for name, content in sorted(parts.items()):
        blocks += [_header(name, len(content)), content, b"\0" * (-len(content) % _BLOCK)]
    return b"".join([*blocks, b"\0" * (2 * _BLOCK)])


def _header(name: str, size: int) -> bytes:
    fields = [
        name.encode().ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,
        f"{size:011o}\0".encode() + b"0" * 11 + b"\0",
        b" " * 8,  # in place of the sum, while it is computed
        b"0" + b"\0" * 100,
        b"ustar\x0000" + b"\0" * 64 + b"0000000\0" * 2,
        b"\0" * 167,
    ]
    total = f"{sum(b''.join(fields)):06o}\0 ".encode()
    return b"".join([*fields[:3], total, *fields[4:]])


def _untar(archive: bytes) -> dict[str, bytes]:
    """Return the parts of an archive. Raises Damaged for another name, or a part that ends too soon."""
    parts: dict[str, bytes] = {}
    at = 0
    while archive[at : at + _BLOCK].strip(b"\0"):
        try:
            name = archive[at : at + 100].rstrip(b"\0").decode("ascii")
            size = int(archive[at + 124 : at + 135].decode("ascii"), 8)
        except ValueError:
            raise Damaged(ARCHIVE, "it cannot be read") from None
        content = archive[at + _BLOCK : at + _BLOCK + size]
        if PART.fullmatch(name) is None or name in parts or size != len(content):
            raise Damaged(ARCHIVE, "it holds what no bundle holds, or ends too soon")
        if archive[at : at + _BLOCK] != _header(name, size):
            raise Damaged(ARCHIVE, "it is not as a bundle is written")
        parts[name] = content
        at += _BLOCK + size + -size % _BLOCK
    return parts
