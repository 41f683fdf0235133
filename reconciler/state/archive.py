"""Rows of a journal that older programs packed together. Every hash can be computed again from them."""

import json
import zlib
from typing import Any


def unpack(body: bytes) -> list[list[Any]]:
    """Return the packed rows, oldest first. Raises ValueError for anything but packed rows."""
    try:
        return [json.loads(line) for line in zlib.decompress(body).splitlines()]
    except zlib.error as error:
        raise ValueError("not what was packed") from error
