"""Putting a backup in the place of a damaged state, with all that the damaged one still proves.

The changes after the backup are made again. A call whose end cannot be read is left open, so that evidence or
a person says what became of it before anything is made again.
"""

import dataclasses
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state import contents as wholes
from reconciler.state.contents import Row, StateDump, chained, with_entry
from reconciler.state.durable import sync
from reconciler.state.log.damage import Damaged
from reconciler.state.log.moving import by_time
from reconciler.state.places.sqlite import backups, database, files, older, seen, whole
from reconciler.state.places.sqlite.database import connect, explained
from reconciler.state.places.sqlite.files import beside
from reconciler.state.places.sqlite.salvage import Salvage, salvage
from reconciler.state.places.sqlite.seen import Seen
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored


class _New(Struct, frozen=True):
    """What comes in the place of a state. `contents`: None where the state itself stays.

    `key_of`: next to which state its key is; None where the key stays. `restored`: all but its `aside`.
    """

    restored: Restored
    contents: StateDump | None = None
    version: int = 0
    note: Mapping[str, Any] = {}
    key_of: Path | None = None


def restore(
    path: Path, backup: Path | None, now: datetime, by: str, randomness: Callable[[int], bytes]
) -> Restored:
    """As `Files.restore`. Nobody may have the state at `path` open for writing, or a lease of it."""
    # Next to the state, so that what is built takes its place by a rename; for its owner only.
    with TemporaryDirectory(prefix=f"{path.name}.new-", dir=path.parent) as folder:
        copy, at = _copy(path, Path(folder) / "damaged.db"), None
        sound = _sound(path, copy)
        if backup is None and sound is None:
            found = backups.newest_good(path)
            if found is None:
                raise StoreError(f"there is no good backup of {path}", help="name a backup FILE")
            backup, at = found.path, found.at
        if backup is not None:
            new = _from_backup(backup, at, path, copy, now)
        elif sound is not None:
            new = _with_key(path, copy, *sound, randomness)
        aside = _aside(path, now)
        if new.contents is not None:
            entry = JournalEntry("", Event.DECIDED, now, data={**new.note, "by": by})
            contents, built = with_entry(new.contents, WHOLE_STATE, entry), copy.with_name("new.db")
            whole.make(built, contents, new.version, randomness)
            _swap(path, built, aside, contents.lineage)
        if new.key_of is not None:
            _bring_key(new.key_of, path, aside)
        return replace(new.restored, aside=_kept_as(aside))


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


def _sound(path: Path, copy: Path) -> tuple[StateDump, int] | None:
    """What the state at `path` holds, and its newest change; None where it is damaged.

    `copy`: of that, to be migrated where that is possible. Raises StateMoved: nothing is wrong with that one,
    and a backup in its place would be a second state.
    """
    try:
        with explained(path), closing(connect(copy)) as connection:
            if database.require(connection, path) < database.VERSION:
                older.migrate(connection)
            contents, found = whole.read(connection)
            if contents.moved_to:
                raise StateMoved(path, contents.moved_to)
            wholes.verify(contents)
            if missing := seen.read(path, contents.lineage).missing_in(found, path):
                raise Damaged(missing)
    except StateMoved:
        raise
    except StoreError:
        return None
    return contents, found.version


def _with_key(
    path: Path, copy: Path, contents: StateDump, version: int, randomness: Callable[[int], bytes]
) -> _New:
    """Only the key is lost: one from a backup that fits, or a new one, which sets every secret again."""
    if not contents.key or _key_digest(path) == contents.key:
        raise StoreError(f"the state {path} is not damaged", help="to go back to a backup, name its FILE")
    for backup in backups.all_of(path):
        if _key_digest(backup.path) == contents.key:
            restored = Restored(str(backup.path), backup.at, "", 0, (), "", "restored")
            return _New(restored, key_of=backup.path)
    key = files.create_key(copy, randomness(files.KEY_BYTES))
    contents = dataclasses.replace(contents, key=files.key_digest(key))
    return _New(Restored("", None, "", 0, (), "", "new"), contents, version + 1, {"new_key": True}, copy)


def _from_backup(source: Path, at: datetime | None, path: Path, copy: Path, now: datetime) -> _New:
    files.read_key(source)  # not that of an encrypted state
    with explained(source), backups.reading(source) as connection:
        at = at or datetime.fromtimestamp(source.stat().st_mtime, UTC)
        base, in_backup = whole.read(connection)
        wholes.verify(base)
    key_of = None if not base.key or _key_digest(path) == base.key else source
    if key_of is not None and _key_digest(key_of) != base.key:
        raise StoreError(
            f"neither {files.key_path(path)} nor {files.key_path(source)} is the key of this backup",
            help="put the key beside the backup, or restore another one",
        )
    salvaged = _salvaged(copy, base, in_backup.version)
    if salvaged.lineage not in ("", base.lineage):
        raise StoreError(f"{source} is a backup of another state", help="name a backup of this state")
    known = max(seen.read(path, base.lineage), salvaged.seen, key=attrgetter("version", "rows"))
    lost = _lost(salvaged, base, known, at, now)
    contents = _merged(base, salvaged, known.serial if lost else 0)
    count = len(salvaged.rows)
    note = {"restored": source.name, "lost": lost, "salvaged": count}
    if lost:
        # Told by every plan, until a person has looked what the platform has.
        note |= {"unclaimed": LOST_ROWS, "because": lost}
    reopened = tuple(sorted(salvaged.reopened, key=str))
    key: Literal["kept", "restored"] = "restored" if key_of is not None else "kept"
    restored = Restored(str(source), at, "", count, reopened, lost, key)
    return _New(restored, contents, max(in_backup.version, known.version) + 1, note, key_of)


def _salvaged(file: Path, base: StateDump, version: int) -> Salvage:
    """Read `file`, a copy of the damaged database with its WAL next to it. Never raises for what it holds.

    `base`: the backup, after which changes are looked for; `version`: its newest change.
    """
    found = Salvage(dict(base.records))
    with suppress(sqlite3.Error), closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.text_factory = lambda text: text.decode(errors="replace")
        if (database.version_of(connection) or database.VERSION) < database.VERSION:
            older.salvage(connection, base, version, found)
        else:
            salvage(connection, base, found)
    return found


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
    entries = [*((row.scope, row.columns) for row in base.rows), *salvaged.rows]
    chains: dict[str, list[Row]] = defaultdict(list)
    for row in chained(base.lineage, entries):
        chains[row.scope].append(row)
    heads = {scope: base.head(scope) for scope in {*base.heads, *chains}}
    for scope, head in heads.items():
        end = chains[scope][-1] if scope in chains else head
        serial = max(head.serial, salvaged.serials.get(scope, 0), least_serial)
        epoch = max(head.epoch, salvaged.epochs.get(scope, 0))
        heads[scope] = replace(head, seq=end.seq, hash=end.hash, serial=serial, epoch=epoch)
    return dataclasses.replace(
        base,
        rows=tuple(by_time(chains)),
        records=salvaged.records,
        heads=heads,
        least_serial=max(base.least_serial, least_serial),
    )


def _lost(salvaged: Salvage, base: StateDump, known: Seen, at: datetime, now: datetime) -> str:
    """Which rows cannot be read, and from when to when; "" when none is known to be lost."""
    there = len(base.rows) + len(salvaged.rows)
    missing = max(there, known.rows) - there
    if not missing and known != seen.NOTHING:
        return ""
    times = (columns[2] for _, columns in salvaged.rows)
    since = max(times, default=at.isoformat(), key=datetime.fromisoformat)
    what = f"{missing} journal rows" if missing else "perhaps the newest journal rows"
    return (
        f"{what} between {since} and {now.isoformat()} cannot be read: "
        "look on the platform for objects that were created since then and that "
        f"`{command('state', 'list')}` does not show"
    )


def _swap(path: Path, new: Path, aside: Path, lineage: str) -> None:
    """`new` takes the place of the files that are there, which are called `aside` then."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            beside(aside, suffix).hardlink_to(beside(path, suffix))
    sync(path.parent)
    # Never a new database beside an old WAL: SQLite would replay it.
    for suffix in ("-wal", "-shm"):
        beside(path, suffix).unlink(missing_ok=True)
    sync(path.parent)
    new.replace(path)
    sync(path.parent)
    with suppress(OSError):  # what was seen of the damaged state counts no more
        files.seen_path(path).unlink(missing_ok=True)
    with closing(connect(path)) as connection:
        seen.write(path, lineage, seen.of(connection))


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
