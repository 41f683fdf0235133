"""Maintenance of a SQLite state: verify all of it, back it up, give it to an environment, let it move."""

import sqlite3
from pathlib import Path

from reconciler.core.errors import StoreError
from reconciler.state import contents as contents_module
from reconciler.state.codec import encode_entry
from reconciler.state.contents import Contents
from reconciler.state.durable import make_private
from reconciler.state.sqlite import backups, checks, commits, environments, files, moving, schema
from reconciler.state.sqlite.database import transaction
from reconciler.state.sqlite.state_file import StateFile
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, refuse_beside_traces


def verify(file: StateFile) -> None:
    connection = file.readable()
    if connection is None:
        return
    seen = checks.seen(file.path, file.lineage)
    with transaction(connection, "DEFERRED"):
        current = backups.verify_all(connection)
    checks.verify_seen(current, seen)
    file.verify_key(current)


def take_over(file: StateFile, environment: str, by: str) -> bool:
    """Give the state of no environment to `environment`; False where it is that one's already."""
    file.heir = environment
    if file.readable() is None:
        raise StoreError(
            f"there is no state {file.path} to take over",
            help="pass that state with --state",
        )
    connection = file.writable()
    if file.environment == environment:
        return False
    with checks.writing(connection, file.path) as current:
        data = {"environment": environment, "by": by}
        entry = JournalEntry("", Event.DECIDED, file.clock.now(), data=data)
        commits.write(connection, current, WHOLE_STATE, [encode_entry(entry)])
        environments.write(connection, file.lineage, environment)
    file.environment = environment
    return True


def backup(file: StateFile, target: Path | None) -> Path:
    """A verified copy, at `target` or among the backups beside the state."""
    connection = file.readable()
    if connection is None:
        raise StoreError(f"there is no state {file.path}", help="check --state")
    verify(file)
    return backups.make(connection, file.path, file.clock.now(), target)


def export(file: StateFile) -> Contents:
    with file.whole(writes=False) as connection, transaction(connection, "DEFERRED"):
        file.verify_key(checks.read(connection, moved=True))
        return moving.export(connection, file.key())


def import_(file: StateFile, contents: Contents) -> None:
    """As `Movable.import_`, while `file` is closed."""
    contents_module.verify(contents)
    path = file.path
    version = moving.free_for(path, contents)
    if version is None:
        known = [checks.seen_path(path)] if checks.seen(path, contents.lineage) is not None else []
        if file.key() == contents.key:  # an earlier attempt came as far as this
            known.append(files.key_path(path))
        refuse_beside_traces(path, [each for each in files.traces_of(path) if each not in known])
    seen = checks.seen(path, contents.lineage)
    version = max(version or 0, seen.version if seen is not None else 0) + 1
    make_private(path.parent)
    if contents.key and files.create_key(files.key_path(path), contents.key) != contents.key:
        raise StoreError(f"{files.key_path(path)} is the key of another state")
    files.create_state(path, lambda new: _fill(new, contents, version), replace=path.exists())


def _fill(connection: sqlite3.Connection, contents: Contents, version: int) -> None:
    """Make a state of an empty database, and read all of it again."""
    schema.initialise(connection, contents.lineage, contents.environment)
    with transaction(connection):
        key = backups.key_digest(contents.key) if contents.key else None
        moving.fill(connection, contents, version, key)
    backups.verify_all(connection)
    if contents.moved_to:
        with transaction(connection):
            moving.mark(connection, contents.lineage, contents.moved_to)


def retire(file: StateFile, to: str, contents: Contents) -> None:
    with file.whole() as connection:
        moving.retire(connection, file.path, to, contents, file.key())


def revive(file: StateFile) -> None:
    with file.whole() as connection:
        moving.revive(connection, file.path)
