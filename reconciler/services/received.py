"""The parts of an answer as they come in, over either way: its headers, and its body under a limit."""

import zlib
from collections.abc import Iterable

from reconciler.core.errors import Lost, TooLarge


class Body:
    """The body of one answer, decoded. Raises Lost where its encoding is unknown or broken.

    Some servers compress although asked for identity, so gzip and deflate are read, piece by
    piece and never past the limit: a few kilobytes may unpack to gigabytes.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        self._unzip = _unzipper(encoding)
        self._limit = limit
        self._pieces: list[bytes] = []
        self._received = self._size = 0

    def add(self, piece: bytes) -> None:
        """Raises TooLarge when there is more than `limit` bytes of it."""
        self._received += len(piece)
        if self._unzip is not None:
            try:
                piece = self._unzip.decompress(piece, self._limit - self._size + 1)
            except zlib.error:
                raise Lost("the answer's compression is broken") from None
        self._size += len(piece)
        if max(self._received, self._size) > self._limit:
            raise TooLarge(f"the answer is larger than {self._limit} bytes")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """All of it, once no more comes."""
        if self._unzip is not None and self._received and (self._unzip.unused_data or not self._unzip.eof):
            raise Lost("the answer's compression is broken")
        return b"".join(self._pieces)


def _unzipper(encoding: str) -> "zlib._Decompress | None":
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: tells gzip and zlib apart itself
        case _:
            raise Lost("the answer has an encoding that was not requested")


def lower_case(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their names in lower case; the values of one that is repeated in one."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
