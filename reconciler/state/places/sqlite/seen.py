"""The newest change of a state that was acknowledged, in `<state>.seen`, written unsynced after each one.

A state that has fewer has lost some, such as those behind a damaged page of the WAL; or an older copy was put
in its place. All of it is best effort: a change itself is safe without it.
"""

import hashlib
import json
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.core.words import counted
from reconciler.state.log.damage import Damaged
from reconciler.state.places.sqlite.files import seen_path


class Seen(Struct, frozen=True):
    """`version`: how many changes there were; `digest`: tells the newest from another one of that number.

    `rows`: how many journal entries; `serial`: the highest of any record.
    """

    version: int
    digest: str
    rows: int
    serial: int

    def missing_in(self, found: "Seen", path: Path) -> str:
        """Which changes `found` lacks, in words; "" for none."""
        if found.version < self.version:
            lost = counted(self.version - found.version, "committed change")
            verb = "is" if self.version - found.version == 1 else "are"
            return f"the last {lost} {verb} missing from the file ({seen_path(path)} lists more changes)"
        if found.version == self.version and found.digest != self.digest:
            return f"its newest change is not the one that was stored ({seen_path(path)} lists another one)"
        return ""


_encode = json.JSONEncoder(sort_keys=True).encode

NOTHING = Seen(0, "", 0, 0)


def of(connection: sqlite3.Connection) -> Seen:
    """What the state in this database has. Raises Damaged."""
    found = connection.execute("SELECT * FROM changes").fetchone()
    if found is None or [*map(type, found)] != [int, str, int, int]:
        raise Damaged("it does not count its changes")
    return Seen(*found)


def read(path: Path, lineage: str) -> Seen:
    """What was seen of the state at `path`; NOTHING where that was not written whole, or of another one."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = json.loads(seen_path(path).read_bytes())
        if found.pop("check") == _check(found) and found.pop("lineage") == lineage:
            found["rows"] = found.pop("head_seq", found.get("rows"))  # an older program's name for it
            return Seen(**found)
    return NOTHING


def write(path: Path, lineage: str, seen: Seen) -> None:
    values = {**asdict(seen), "lineage": lineage}
    text = _encode(values | {"check": _check(values)}).ljust(400).encode()
    how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        descriptor = os.open(seen_path(path), how, 0o600)
        try:
            os.pwrite(descriptor, text, 0)
        finally:
            os.close(descriptor)


def _check(values: dict[str, Any]) -> str:
    return hashlib.sha256(_encode(values).encode()).hexdigest()
