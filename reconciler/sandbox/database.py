"""Where the world survives: one SQLite file, written in one transaction before each answer is sent.

WAL with synchronous NORMAL: what was answered survives the death of the process,
though not that of the machine, which is the right price for an emulator.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import StoreError
from reconciler.sandbox.catalog import KINDS
from reconciler.sandbox.world import Thing, World

VERSION = 3  # 2: days of volumes; 3: providers and what belongs to them
_SCHEMA = """
CREATE TABLE IF NOT EXISTS things (
    kind TEXT NOT NULL, id TEXT NOT NULL, serial INTEGER PRIMARY KEY, body TEXT NOT NULL, UNIQUE (kind, id)
);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    status INTEGER NOT NULL, effect INTEGER NOT NULL
);
"""
_PUT = (
    "INSERT INTO things (kind, id, body) VALUES (?, ?, ?)"
    " ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body"
)
_REMOVE = "DELETE FROM things WHERE kind = ? AND id = ?"
_SET = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_LOG = "INSERT INTO log (at, method, path, status, effect) VALUES (?, ?, ?, ?, ?)"
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, slots=True)
class LogEntry:
    """`status` 0: no answer was sent. `effect`: the request changed the world."""

    at: str
    method: str
    path: str
    status: int
    effect: bool


class Database:
    """In memory without a path. Raises StoreError for a file of a newer version or that is no sandbox's."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        self._path = path
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(f"{path} is not the database of a sandbox") from error
        except StoreError:
            self.close()
            raise

    def load(self, world: World) -> Mapping[str, Any]:
        """Fill `world`, and return the settings."""
        for kind, body in self._connection.execute("SELECT kind, body FROM things ORDER BY serial"):
            world.load(KINDS[kind](**json.loads(body)))
        return {
            name: json.loads(value)
            for name, value in self._connection.execute("SELECT name, value FROM settings")
        }

    def commit(
        self,
        changed: Mapping[tuple[str, str], Thing | None],
        settings: Mapping[str, Any],
        entry: LogEntry | None = None,
    ) -> None:
        """Store changed things (None: removed), settings and a line of the log: all or nothing."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            for (kind, id), thing in changed.items():
                if thing is None:
                    execute(_REMOVE, (kind, id))
                else:
                    execute(_PUT, (kind, id, _encode(vars(thing))))
            for name, value in settings.items():
                execute(_SET, (name, _encode(value)))
            if entry is not None:
                execute(_LOG, (entry.at, entry.method, entry.path, entry.status, entry.effect))
            execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise

    def log(self, since: int = 0) -> Iterator[tuple[int, LogEntry]]:
        """The lines with a sequence number above `since`, oldest first."""
        rows: Sequence[tuple[int, str, str, str, int, int]] = self._connection.execute(
            "SELECT seq, at, method, path, status, effect FROM log WHERE seq > ? ORDER BY seq", (since,)
        ).fetchall()
        yield from map(_entry, rows)

    def tail(self, most: int) -> tuple[int, Sequence[tuple[int, LogEntry]]]:
        """How many lines there are, and the last `most` of them, newest first."""
        (total,) = self._connection.execute("SELECT count(*) FROM log").fetchone()
        rows: Sequence[tuple[int, str, str, str, int, int]] = self._connection.execute(
            "SELECT seq, at, method, path, status, effect FROM log ORDER BY seq DESC LIMIT ?", (most,)
        ).fetchall()
        return total, [_entry(row) for row in rows]

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a newer sandbox (version {version})",
                help="upgrade this program",
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA user_version = {VERSION}")


def _entry(row: tuple[int, str, str, str, int, int]) -> tuple[int, LogEntry]:
    seq, at, method, path, status, effect = row
    return seq, LogEntry(at, method, path, status, bool(effect))
