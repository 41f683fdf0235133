"""Rows of a journal packed together: old ones, which nobody changes and only a history reads. Pure.

Nothing is left out or encoded in another way, so that every hash can be computed again.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

SEGMENT_ROWS = 500  # how many rows are packed together at most
SEGMENT_BYTES = 1 << 20  # of their data
KEPT_ROWS = 500  # how many of the newest rows stay as they are at most
KEPT_BYTES = 4 << 20  # of their data

_encode = json.JSONEncoder(separators=(",", ":")).encode


def pack(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows of JSON values, a line each, compressed."""
    return zlib.compress("".join(f"{_encode(row)}\n" for row in rows).encode())


def unpack(body: bytes) -> list[list[Any]]:
    """Raises ValueError for anything but what `pack` made."""
    try:
        return [json.loads(line) for line in zlib.decompress(body).splitlines()]
    except zlib.error as error:
        raise ValueError("not what was packed") from error
