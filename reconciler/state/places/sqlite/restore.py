"""Putting a backup in the place of a damaged state, with all that the damaged one still proves.

The changes after the backup are made again. A call whose end cannot be read is left open, so that evidence or
a person says what became of it before anything is made again.
"""

import dataclasses
import shutil
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state import contents as wholes
from reconciler.state.chain import row_hash
from reconciler.state.contents import Row, StateDump, with_entry
from reconciler.state.durable import sync_directory
from reconciler.state.log.damage import Damaged
from reconciler.state.log.moving import in_one
from reconciler.state.places.sqlite import backups, database, files, older, seen, whole
from reconciler.state.places.sqlite.database import connect, explained
from reconciler.state.places.sqlite.files import beside
from reconciler.state.places.sqlite.salvage import Salvage, salvage
from reconciler.state.places.sqlite.seen import Seen
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored

Damage = Literal["", "state", "key"]


def restore(
    path: Path,
    backup: Path | None,
    now: datetime,
    by: str,
    nonce: Callable[[], str],
    new_key: Callable[[], bytes],
) -> Restored:
    """As `Files.restore`. Nobody may have the state at `path` open for writing, or a lease of it."""
    # Next to the state, so that what is built takes its place by a rename; for its owner only.
    with TemporaryDirectory(prefix=f"{path.name}.new-", dir=path.parent) as folder:
        copy = _copy(path, Path(folder) / "damaged.db")
        damage = _damage(path, copy)
        if backup is not None:
            return _restore_from(backup, _modified(backup), path, copy, now, by, nonce)
        if not damage:
            raise StoreError(f"the state {path} is not damaged", help="to go back to a backup, name its FILE")
        if damage == "key":
            return _restore_key(path, copy, now, by, nonce, new_key())
        found = backups.newest_good(path)
        if found is None:
            raise StoreError(f"there is no good backup of {path}", help="name a backup FILE")
        return _restore_from(found.path, found.at, path, copy, now, by, nonce)


def _copy(path: Path, copy: Path) -> Path:
    """The damaged database with its WAL: reading the files themselves would change them."""
    damaged = path
    for aside in path.parent.glob(f"{path.name}.damaged-*"):
        # An earlier restore ended half-way: the WAL is aside, the database still in place.
        if path.exists() and aside.samefile(path):
            damaged = aside
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(beside(damaged, suffix), beside(copy, suffix))
    return copy


def _damage(path: Path, copy: Path) -> Damage:
    """What is damaged of the state at `path`. `copy`: of that, to be migrated where that is possible.

    Raises StateMoved: nothing is wrong with that one, and a backup in its place would be a second state.
    """
    try:
        with explained(path), closing(connect(copy)) as connection:
            if database.require(connection, path) < database.VERSION:
                older.migrate(connection)
            whole.verify(connection)
            contents = whole.contents_of(connection)
            if contents.moved_to:
                raise StateMoved(path, contents.moved_to)
            wholes.verify(contents)
            if missing := seen.read(path, contents.lineage).missing_in(seen.of(connection), path):
                raise Damaged(missing)
    except StateMoved:
        raise
    except StoreError:
        return "state"
    return "key" if contents.key and _key_digest(path) != contents.key else ""


def _restore_key(
    path: Path, copy: Path, now: datetime, by: str, nonce: Callable[[], str], new_key: bytes
) -> Restored:
    """Only the key is lost: one from a backup that fits, or a new one, which sets every secret again."""
    with closing(connect(copy)) as connection:
        contents, version = whole.contents_of(connection), seen.of(connection).version
    for backup in backups.all_of(path):
        if _key_digest(backup.path) == contents.key:
            aside = _aside(path, now)
            _bring_key(backup.path, path, aside)
            return Restored(str(backup.path), backup.at, _kept_as(aside), 0, (), "", "restored")
    note = JournalEntry("", Event.DECIDED, now, data={"new_key": True, "by": by})
    new = copy.with_name("new.db")
    contents = dataclasses.replace(contents, key=files.key_digest(new_key))
    whole.make(new, with_entry(contents, WHOLE_STATE, note), version + 1, nonce)
    aside = _swap(path, new, now)
    files.create_key(new, new_key)
    _bring_key(new, path, aside)
    return Restored("", None, _kept_as(aside), 0, (), "", "new")


def _restore_from(
    source: Path, at: datetime, path: Path, copy: Path, now: datetime, by: str, nonce: Callable[[], str]
) -> Restored:
    files.read_key(source)  # not that of an encrypted state
    with explained(source), backups.reading(source) as connection:
        whole.verify(connection)
        base, version = whole.contents_of(connection), seen.of(connection).version
        wholes.verify(base)
    key = _key_for(path, source, base.key)
    salvaged, known = salvage(copy, base, version), seen.read(path, base.lineage)
    if salvaged.lineage not in ("", base.lineage):
        raise StoreError(f"{source} is a backup of another state", help="name a backup of this state")
    lost = _lost(salvaged, base, known, at, now)
    contents = _merged(base, salvaged, known.serial if lost else 0)
    count = sum(map(len, salvaged.rows.values()))
    note = {"restored": source.name, "by": by, "lost": lost, "salvaged": count}
    if lost:
        # Told by every plan, until a person has looked what the platform has.
        note |= {"unclaimed": LOST_ROWS, "because": lost}
    contents = with_entry(contents, WHOLE_STATE, JournalEntry("", Event.DECIDED, now, data=note))
    new = copy.with_name("new.db")
    whole.make(new, contents, max(version, salvaged.changes, known.version) + 1, nonce)
    aside = _swap(path, new, now)
    if key == "restored":
        _bring_key(source, path, aside)
    reopened = tuple(sorted(salvaged.reopened, key=str))
    return Restored(str(source), at, _kept_as(aside), count, reopened, lost, key)


def _key_for(path: Path, source: Path, digest: bytes) -> Literal["kept", "restored"]:
    """Where the key of a backup is: next to the state, or next to the backup. Raises StoreError."""
    own = files.read_key(source)  # not that of an encrypted state
    if not digest or _key_digest(path) == digest:
        return "kept"
    if files.key_digest(own) == digest:
        return "restored"
    raise StoreError(
        f"neither {files.key_path(path)} nor {files.key_path(source)} is the key of this backup",
        help="put the key beside the backup, or restore another one",
    )


def _bring_key(source: Path, path: Path, aside: Path) -> None:
    """The key next to `source` becomes that of the state at `path`; the one before is kept with `aside`."""
    key = files.read_key(source)
    assert key is not None
    with suppress(FileNotFoundError):
        files.key_path(path).rename(files.key_path(aside))
    files.create_key(path, key)


def _key_digest(path: Path) -> bytes:
    with suppress(StoreError):
        return files.key_digest(files.read_key(path))
    return b""


def _merged(base: StateDump, salvaged: Salvage, least_serial: int) -> StateDump:
    """The backup, with all that was salvaged. `least_serial`: from which on every scope counts."""
    chains: dict[str, list[Row]] = defaultdict(list)
    for known in base.rows:
        chains[known.scope].append(known)
    heads = dict(base.heads)
    for scope, rows in salvaged.rows.items():
        for columns in rows:
            head = base.head(scope) if scope not in heads else heads[scope]
            hash = row_hash(head.hash, head.seq + 1, columns[:-1], columns[-1].encode(), scope)
            chains[scope].append(Row(scope, head.seq + 1, columns, hash))
            heads[scope] = replace(head, seq=head.seq + 1, hash=hash)
    for scope, head in heads.items():
        serial = max(head.serial, salvaged.serials.get(scope, 0), least_serial)
        heads[scope] = replace(head, serial=serial, epoch=max(head.epoch, salvaged.epochs.get(scope, 0)))
    return dataclasses.replace(
        base,
        rows=tuple(in_one(chains)),
        records=salvaged.records,
        heads=heads,
        least_serial=max(base.least_serial, least_serial),
    )


def _lost(salvaged: Salvage, base: StateDump, known: Seen, at: datetime, now: datetime) -> str:
    """Which rows cannot be read, and from when to when; "" when none is known to be lost."""
    rows = [columns for scope in salvaged.rows.values() for columns in scope]
    there = len(base.rows) + len(rows)
    missing = max(there, salvaged.rows_known or 0, known.rows) - there
    if not missing and (salvaged.rows_known is not None or known.version):
        return ""
    since = max((columns[2] for columns in rows), default=at.isoformat(), key=datetime.fromisoformat)
    what = f"{missing} journal rows" if missing else "perhaps the newest journal rows"
    return (
        f"{what} between {since} and {now.isoformat()} cannot be read: "
        "look on the platform for objects that were created since then and that "
        f"`{command('state', 'list')}` does not show"
    )


def _swap(path: Path, new: Path, now: datetime) -> Path:
    """`new` takes the place of the files that are there, which stay under the name that comes back."""
    aside = _aside(path, now)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            beside(aside, suffix).hardlink_to(beside(path, suffix))
    sync_directory(path.parent)
    # Never a new database beside an old WAL: SQLite would replay it.
    for suffix in ("-wal", "-shm"):
        beside(path, suffix).unlink(missing_ok=True)
    sync_directory(path.parent)
    new.replace(path)
    sync_directory(path.parent)
    with closing(connect(path)) as connection:
        seen.write_anew(path, whole.lineage_of(connection), seen.of(connection))
    return aside


def _aside(path: Path, now: datetime) -> Path:
    """A name that is free."""
    base = beside(path, f".damaged-{now:%Y%m%dT%H%M%SZ}")
    number = 1
    aside = base
    while any(beside(aside, suffix).exists() for suffix in ("", "-wal", ".key")):
        number += 1
        aside = beside(base, f"-{number}")
    return aside


def _kept_as(aside: Path) -> str:
    """The name of what was replaced: the state and what is next to it, or its key alone; "" for nothing."""
    if any(beside(aside, suffix).exists() for suffix in ("", "-wal", "-shm")):
        return str(aside)
    key = files.key_path(aside)
    return str(key) if key.exists() else ""


def _modified(file: Path) -> datetime:
    with explained(file):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
