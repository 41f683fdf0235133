"""Which files a sandbox takes for its own. Source: docs/sandbox.md."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.sandbox.parts.secret import holds
from tests.sandbox.platform import Platform

# As version 0.2.0 left it.
OLDER = """
CREATE TABLE things (
    kind TEXT NOT NULL, id TEXT NOT NULL, serial INTEGER PRIMARY KEY, body TEXT NOT NULL, UNIQUE (kind, id)
);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    status INTEGER NOT NULL, effect INTEGER NOT NULL
);
PRAGMA application_id = 0x52636e73;
PRAGMA user_version = 3;
"""


def made(file: Path, script: str) -> bytes:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    return file.read_bytes()


def test_a_file_of_an_earlier_version_is_taken(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    made(db, "PRAGMA journal_mode = WAL;" + OLDER)
    for _ in range(2):
        Platform(db).sandbox.close()


def test_bare_digests_of_an_earlier_version_leave_the_file(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    bare = hashlib.sha256(b"hunter2").hexdigest()
    secret: dict[str, object] = {"state": "", "due": None, "id": "shop/A", "app": "shop", "name": "A"}
    secret |= {"sha256": bare, "digest": bare[:16], "created_at": 0.0, "updated_at": 0.0}
    store = {"state": "", "due": None, "id": "store", "client_id": "store", "client_secret_sha256": bare}
    things = (("secret", "shop/A", secret), ("provider", "store", store))
    rows = "".join(
        f"INSERT INTO things (kind, id, body) VALUES ('{kind}', '{id}', '{json.dumps(body)}');"
        for kind, id, body in things
    )
    made(db, OLDER + rows)
    for _ in range(2):
        with Platform(db) as platform:
            (shown,) = platform.world()["secrets"]
            assert holds(shown["fingerprint"], "hunter2")
    assert bare[:16].encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    db.touch()
    Platform(db).sandbox.close()


@pytest.mark.parametrize(
    "script",
    [
        OLDER + "PRAGMA application_id = 7;",
        OLDER + "PRAGMA application_id = 0;",
        "CREATE TABLE things (x);",
        "PRAGMA user_version = 99;",
    ],
)
def test_a_database_of_somebody_else_is_left_as_it_is(tmp_path: Path, script: str) -> None:
    db = tmp_path / "world.db"
    before = made(db, script)
    changed = db.stat().st_mtime_ns
    with pytest.raises(StoreError, match="is not the database of a sandbox"):
        Platform(db)
    assert (db.read_bytes(), db.stat().st_mtime_ns) == (before, changed)


def test_a_world_of_a_newer_program_is_named(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    Platform(db).sandbox.close()
    made(db, "PRAGMA user_version = 99;")
    with pytest.raises(StoreError, match="newer sandbox"):
        Platform(db)


def test_a_world_that_only_its_log_holds_is_known(tmp_path: Path) -> None:
    db, copy = tmp_path / "world.db", tmp_path / "copy.db"
    with Platform(db) as platform:
        platform.volume()
        copy.write_bytes(db.read_bytes())  # as a killed process leaves it
        copy.with_name("copy.db-wal").write_bytes(db.with_name("world.db-wal").read_bytes())
        with Platform(copy) as again:
            assert again.world() == platform.world()
