"""The world on disk: one SQLite file, written in one transaction before an answer is sent.

WAL with synchronous NORMAL: an answered change survives the death of the process, though not that of the
machine, which is the right price for an emulator.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.core.errors import StoreError
from reconciler.sandbox.catalog import KINDS
from reconciler.sandbox.parts import secret
from reconciler.sandbox.parts.secret import keyed
from reconciler.sandbox.world import Thing, World

# 3: that of version 0.2.0; 4: fingerprints of secrets, bodies in the log
VERSION = 4
APPLICATION_ID = 0x52636E73  # "Rcns": tells our file from any other SQLite database
_SCHEMA = """
CREATE TABLE IF NOT EXISTS things (
    kind TEXT NOT NULL, id TEXT NOT NULL, serial INTEGER PRIMARY KEY, body TEXT NOT NULL, UNIQUE (kind, id)
);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    status INTEGER NOT NULL, effect INTEGER NOT NULL, body TEXT NOT NULL DEFAULT ''
);
"""
_WITH_BODIES = 4  # the version whose log holds bodies
_BARE_DIGESTS = {"secret": "sha256", "provider": "client_secret_sha256"}  # by kind, before version 4
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_PUT = (
    "INSERT INTO things (kind, id, body) VALUES (?, ?, ?)"
    " ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body"
)
_REMOVE = "DELETE FROM things WHERE kind = ? AND id = ?"
_SET = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_LOG = "INSERT INTO log (at, method, path, status, effect, body) VALUES (?, ?, ?, ?, ?, ?)"
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class LogEntry(Struct, frozen=True):
    """`status` 0: no answer was sent. `effect`: the request changed the world. `body`: the request's as JSON,
    secrets masked; empty where there was none.
    """

    at: str
    method: str
    path: str
    status: int
    effect: bool
    body: str = ""


class Database:
    """In memory without a path. Raises StoreError for the file of a newer version, or of something else."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            require_own(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
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
        settings = {
            name: json.loads(value)
            for name, value in self._connection.execute("SELECT name, value FROM settings")
        }
        if "fingerprint_key" in settings:
            world.fingerprint_key = bytes.fromhex(settings["fingerprint_key"])
        else:
            self._key_digests(world.fingerprint_key)
        for kind, body in self._connection.execute("SELECT kind, body FROM things ORDER BY serial"):
            world.load(KINDS[kind](**json.loads(body)))
        return settings

    def commit(
        self,
        changed: Mapping[tuple[str, str], Thing | None],
        settings: Mapping[str, Any],
        entry: LogEntry | None = None,
    ) -> None:
        """Store changed things (None: removed), settings and a line of the log: all or nothing."""
        execute = self._connection.execute
        with self._connection:  # commits, or rolls back
            execute("BEGIN IMMEDIATE")
            for (kind, id), thing in changed.items():
                if thing is None:
                    execute(_REMOVE, (kind, id))
                else:
                    execute(_PUT, (kind, id, _encode(vars(thing))))
            for name, value in settings.items():
                execute(_SET, (name, _encode(value)))
            if entry is not None:
                execute(_LOG, (entry.at, entry.method, entry.path, entry.status, entry.effect, entry.body))

    def log(self, since: int = 0) -> Iterator[tuple[int, LogEntry]]:
        """The lines with a sequence number above `since`, oldest first."""
        yield from self._entries("WHERE seq > ? ORDER BY seq", since)

    def tail(self, most: int) -> tuple[int, Sequence[tuple[int, LogEntry]]]:
        """How many lines there are, and the last `most` of them, newest first."""
        (total,) = self._connection.execute("SELECT count(*) FROM log").fetchone()
        return total, self._entries("ORDER BY seq DESC LIMIT ?", most)

    def _entries(self, which: str, number: int) -> list[tuple[int, LogEntry]]:
        query = f"SELECT seq, at, method, path, status, effect, body FROM log {which}"  # noqa: S608 - our own
        return [
            (seq, LogEntry(at, method, path, status, bool(effect), body))
            for seq, at, method, path, status, effect, body in self._connection.execute(query, (number,))
        ]

    def close(self) -> None:
        self._connection.close()

    def _key_digests(self, key: bytes) -> None:
        """Replace the bare SHA-256 of secrets that versions before 4 stored, also in free pages."""
        execute = self._connection.execute
        bare = [
            (kind, id, old, json.loads(body))
            for kind, old in _BARE_DIGESTS.items()
            for id, body in execute("SELECT id, body FROM things WHERE kind = ?", (kind,)).fetchall()
            if old in json.loads(body)
        ]
        with self._connection:
            execute("BEGIN IMMEDIATE")
            for kind, id, old, body in bare:
                sha256 = body.pop(old)
                kept = body[old.removesuffix("sha256") + "fingerprint"] = sha256 and keyed(sha256, key)
                if "digest" in body:
                    body["digest"] = secret.digest(kept)  # it followed from the bare one
                execute(_PUT, (kind, id, _encode(body)))
            execute(_SET, ("fingerprint_key", _encode(key.hex())))
        if bare:
            execute("VACUUM")
            execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _prepare(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a newer sandbox (version {version})",
                help="upgrade this program",
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        if version < _WITH_BODIES and not any(
            name == "body" for _, name, *_ in self._connection.execute("PRAGMA table_info(log)")
        ):
            self._connection.execute("ALTER TABLE log ADD COLUMN body TEXT NOT NULL DEFAULT ''")
        self._connection.execute(f"PRAGMA user_version = {VERSION}")


def require_own(path: Path) -> None:
    """Raises StoreError unless `path` is a sandbox's, empty or missing, and no link. Writes nothing to it."""
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link", help="name the file that it points to")
    try:
        if not path.exists() or path.stat().st_size == 0:
            return
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        own = header.startswith(_MAGIC) and _is_own(path, int.from_bytes(header[68:72], "big"))
    except (OSError, sqlite3.DatabaseError) as error:
        raise StoreError(f"{path} is not the database of a sandbox: {error}") from error
    if not own:
        raise StoreError(
            f"{path} is not the database of a sandbox", help="name another file; this one was not changed"
        )


def _is_own(path: Path, marked: int) -> bool:
    """Whether a sandbox wrote it. `marked`: the application id in the file, which its log may be ahead of."""
    if marked not in (0, APPLICATION_ID):
        return False
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(application_id == APPLICATION_ID or not (application_id or version or tables))
