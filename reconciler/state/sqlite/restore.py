"""Putting a backup in the place of a damaged state, with all that the damaged one still proves.

The journal's rows after the backup are appended again. A record comes from the damaged file where its
digest fits there; a call whose record is not readable is left open, so that evidence or a person says
what became of it before anything is made again.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec.structs import replace

from reconciler.core.advice import Command, command
from reconciler.core.errors import Locked, StateMoved, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import rules
from reconciler.state.codec import EntryColumns, decode_entry, encode_entry, encode_record
from reconciler.state.durable import sync, sync_directory
from reconciler.state.sqlite import (
    backups,
    checks,
    files,
    heads,
    journal,
    leases,
    locks,
    older,
    records,
    schema,
)
from reconciler.state.sqlite.checks import Checks
from reconciler.state.sqlite.database import connect, explained
from reconciler.state.sqlite.salvage import Salvage, salvage
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored


def way_out(path: Path) -> tuple[str, Command]:
    """What to do about damage: the newest good backup, and the command in the text that restores it."""
    backup = backups.newest_good(path)
    if backup is None:
        bring = command("state", "restore", "FILE")
        return (
            "no good backup was found beside it: keep the file; if you have a backup elsewhere, run "
            f"`{bring}`",
            bring,
        )
    bring = command("state", "restore")
    made = f"{backup.at:%Y-%m-%d %H:%M:%S} UTC"
    text = (
        f"the newest good backup is from {made}; `{bring}` restores it,"
        " and adds everything that the damaged file still contains"
    )
    return text, bring


def restore(
    path: Path, backup: Path | None, now: datetime, by: str, randomness: Callable[[int], bytes]
) -> Restored:
    """As `Files.restore`. Nobody may have the state at `path` open for writing."""
    # Beside the state, so that what is built takes its place by a rename; for its owner only.
    with _nobody_else(path, now), TemporaryDirectory(prefix=f"{path.name}.new-", dir=path.parent) as folder:
        copy = _copy(path, Path(folder) / "damaged.db")
        damage = _damage(path, copy)
        if backup is None and damage is None:
            raise StoreError(f"the state {path} is not damaged", help="to go back to a backup, name its FILE")
        if backup is None and damage == "key":
            return _restore_key(path, now, by, randomness)
        chosen = backups.newest_good(path) if backup is None else None
        if backup is None and chosen is None:
            raise StoreError(f"there is no good backup of {path}", help="name a backup FILE")
        source = backup if chosen is None else chosen.path
        assert source is not None
        at = chosen.at if chosen is not None else _modified(source)
        return _restore_from(source, at, path, copy, now, by)


@contextmanager
def _nobody_else(path: Path, now: datetime) -> Iterator[None]:
    lock_file = files.lock_path(path)
    lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not locks.try_lock(lock_file, locks.ALL):
        raise _held(path, now)
    try:
        yield
    finally:
        locks.unlock(lock_file, locks.ALL)


def _held(path: Path, now: datetime) -> Locked:
    # The state may be too damaged to name the holder.
    with suppress(StoreError), explained(path), closing(connect(path)) as connection:
        for (scope,) in connection.execute("SELECT scope FROM leases WHERE released = 0 ORDER BY since"):
            return leases.locked_by(connection, scope, now)
    return Locked(path.name, "another process", 0)


def _copy(path: Path, copy: Path) -> Path:
    """The damaged database with its WAL: reading the files themselves would change them."""
    damaged = path
    for aside in path.parent.glob(f"{path.name}.damaged-*"):
        # An earlier restore ended half-way: the WAL is aside, the database still in place.
        if path.exists() and aside.samefile(path):
            damaged = aside
    with suppress(FileNotFoundError):
        shutil.copyfile(damaged, copy)
    with suppress(FileNotFoundError):
        shutil.copyfile(_beside(damaged, "-wal"), _beside(copy, "-wal"))
    return copy


def _damage(path: Path, copy: Path) -> str | None:
    """What is wrong with the state at `path`, of which `copy` is one: "state", "key" or nothing."""
    try:
        with explained(path):
            with closing(connect(copy)) as connection:
                schema.require(connection, path)
                older.migrate(connection)
                current = backups.verify_all(connection)
            checks.verify_seen(current, checks.seen(path, current.lineage))
    except StateMoved:
        raise  # nothing is wrong with it, and a backup in its place would be a second state
    except StoreError:
        return "state"
    if current.key is not None and _key_digest(path) != current.key:
        return "key"
    return None


def _restore_key(path: Path, now: datetime, by: str, randomness: Callable[[int], bytes]) -> Restored:
    """Only the key is lost: one from a backup that fits, or a new one, which sets every secret again."""
    with closing(connect(path)) as connection:
        backups.migrate(connection, path, now)
        wanted = checks.read(connection).key
        aside = _aside(path, now)
        _move(files.key_path(path), files.key_path(aside))
        for backup in backups.all_of(path):
            if _key_digest(backup.path) == wanted:
                key = files.key_path(backup.path).read_bytes()
                files.create_key(files.key_path(path), key)
                return Restored(str(backup.path), backup.at, _kept_as(aside), 0, (), "", "restored")
        key = files.create_key(files.key_path(path), randomness(files.KEY_BYTES))
        with checks.writing(connection, path) as current:
            current.key = backups.key_digest(key)
            _note(connection, current, now, {"new_key": True, "by": by})
        return Restored("", None, _kept_as(aside), 0, (), "", "new")


def _restore_from(source: Path, at: datetime, path: Path, copy: Path, now: datetime, by: str) -> Restored:
    new = copy.with_name("new.db")
    with explained(source):
        shutil.copyfile(source, new)
        new.chmod(0o600)
        with closing(connect(new)) as connection:
            schema.require(connection, source)
            older.migrate(connection)
            base = backups.verify_all(connection)
            salvaged = salvage(copy, base, heads.read(connection, base))
            if salvaged.lineage not in ("", base.lineage):
                raise StoreError(f"{source} is a backup of another state", help="name a backup of this state")
            if salvaged.end_known and salvaged.end < base.rows:
                # An older copy was put in the state's place: the backup knows all that it knows, and more.
                salvaged = Salvage(end=base.rows, lineage=salvaged.lineage)
            seen = checks.seen(path, base.lineage)
            note = {"restored": source.name, "by": by}
            lost = _lost(salvaged, base, seen, at, now)
            reopened = _rebuild(connection, new, base, salvaged, seen, now, {**note, "lost": lost})
            connection.execute("PRAGMA journal_mode = DELETE")
            current = checks.read(connection)
        sync(new)
    key = _key_for(path, source, current)
    aside = _swap(path, new, now)
    if key == "restored":
        _move(files.key_path(path), files.key_path(aside))
        files.create_key(files.key_path(path), files.key_path(source).read_bytes())
    checks.tell_seen_anew(path, current)
    return Restored(str(source), at, _kept_as(aside), len(salvaged.rows), reopened, lost, key)


def _key_for(path: Path, source: Path, current: Checks) -> Literal["kept", "restored"]:
    if current.key is None or _key_digest(path) == current.key:
        return "kept"
    if _key_digest(source) == current.key:
        return "restored"
    raise StoreError(
        f"neither {files.key_path(path)} nor {files.key_path(source)} is the key of this backup",
        help="put the key beside the backup, or restore another one",
    )


def _rebuild(
    connection: sqlite3.Connection,
    path: Path,
    base: Checks,
    salvaged: Salvage,
    seen: checks.Seen | None,
    now: datetime,
    note: Mapping[str, object],
) -> tuple[Address, ...]:
    """Bring `salvaged` into the copy of the backup; says which addresses are reopened."""
    count = heads.count(heads.read(connection, base))
    kept = {} if salvaged.all_records else records.load(connection, count)
    unreadable = _unreadable(salvaged)
    for number, row in salvaged.rows.items():
        _follow(kept, row, salvaged.scopes[number])
    merged = _merge(kept, salvaged)
    with checks.writing(connection, path, ["plans_run"]) as current:
        for number, row in salvaged.rows.items():
            scope = salvaged.scopes[number]
            if not _closes_one_of(row, unreadable):
                with heads.changing(connection, current, scope) as head:
                    journal.append(connection, current, head, scope, [row])
        records.clear(connection, current)
        for record, body in merged.values():
            with heads.changing(connection, current, record.scope) as head:
                records.put_as_it_was(connection, head, record, body)
        heads.raise_serials(connection, current, max(salvaged.serial, seen.serial if seen else 0))
        current.version = max(current.version, salvaged.version, seen.version if seen else 0)
        data = {**note, "salvaged": len(salvaged.rows)}
        if note["lost"]:
            # Told by every plan, until a person has looked what the platform has.
            data |= {"unclaimed": LOST_ROWS, "because": note["lost"]}
        _note(connection, current, now, data)
    return tuple(sorted(unreadable, key=str))


def _unreadable(salvaged: Salvage) -> set[Address]:
    """Where a call of a salvaged row changed something, and the damaged file does not show the record."""
    if salvaged.all_records:
        return set()
    changed = {
        Address.parse(row[3])
        for row in salvaged.rows.values()
        if rules.changes_a_record(row[1]) and row[3] is not None
    }
    return changed - set(salvaged.records)


def _closes_one_of(columns: EntryColumns, addresses: set[Address]) -> bool:
    return (
        rules.changes_a_record(columns[1])
        and columns[3] is not None
        and Address.parse(columns[3]) in addresses
    )


def _follow(kept: dict[Address, StateRecord], columns: EntryColumns, scope: str) -> None:
    """What was decided after the backup in an entry of `scope`, and the damaged file no longer shows."""
    entry = decode_entry(*columns[:-1], columns[-1].encode())
    if entry.event is not Event.DECIDED or entry.address is None:
        return
    if "forget" in entry.data or "moved_away" in entry.data:
        kept.pop(entry.address, None)
    if "to" in entry.data and entry.address in kept:
        moved = kept.pop(entry.address)
        address = Address.parse(entry.data["to"])
        kept[address] = replace(moved, address=address)
    source = Address.parse(entry.data["moved_from"]) if "moved_from" in entry.data else None
    if source in kept:
        kept[entry.address] = replace(kept[source], address=entry.address, scope=scope)


def _merge(kept: dict[Address, StateRecord], salvaged: Salvage) -> dict[Address, tuple[StateRecord, str]]:
    """Where both know a record, the later one."""
    later = {
        address: known
        for address, known in salvaged.records.items()
        if address not in kept or known[0].serial >= kept[address].serial
    }
    return {address: (record, encode_record(record)) for address, record in kept.items()} | later


def _lost(salvaged: Salvage, base: Checks, seen: checks.Seen | None, at: datetime, now: datetime) -> str:
    """Which rows cannot be read, and from when to when; "" when none is known to be lost."""
    end = max(salvaged.end, seen.rows if seen is not None else 0)
    missing = [seq for seq in range(base.rows + 1, end + 1) if seq not in salvaged.rows]
    if not missing and (salvaged.end_known or seen is not None):
        return ""
    before = [row[2] for seq, row in salvaged.rows.items() if not missing or seq < missing[0]]
    after = [row[2] for seq, row in salvaged.rows.items() if missing and seq > missing[-1]]
    since = before[-1] if before else at.isoformat()
    until = after[0] if after else now.isoformat()
    what = f"{len(missing)} journal rows" if missing else "perhaps the newest journal rows"
    return (
        f"{what} between {since} and {until} cannot be read: "
        "look on the platform for objects that were created since then and that "
        f"`{command('state', 'list')}` does not show"
    )


def _swap(path: Path, new: Path, now: datetime) -> Path:
    """`new` takes the place of the files that are there, which stay under the name that comes back."""
    aside = _aside(path, now)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            _beside(aside, suffix).hardlink_to(_beside(path, suffix))
    sync_directory(path.parent)
    # Never a new database beside an old WAL: SQLite would replay it.
    for suffix in ("-wal", "-shm"):
        _beside(path, suffix).unlink(missing_ok=True)
    sync_directory(path.parent)
    new.replace(path)
    sync_directory(path.parent)
    return aside


def _aside(path: Path, now: datetime) -> Path:
    """A name that is free."""
    base = _beside(path, f".damaged-{now:%Y%m%dT%H%M%SZ}")
    number = 1
    aside = base
    while any(_beside(aside, suffix).exists() for suffix in ("", "-wal", ".key")):
        number += 1
        aside = _beside(base, f"-{number}")
    return aside


def _kept_as(aside: Path) -> str:
    """The name of what was replaced: the state and what is beside it, or its key alone; "" for nothing."""
    if any(_beside(aside, suffix).exists() for suffix in ("", "-wal", "-shm")):
        return str(aside)
    key = files.key_path(aside)
    return str(key) if key.exists() else ""


def _move(source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        source.rename(target)


def _key_digest(path: Path) -> str | None:
    try:
        key = files.read_key(files.key_path(path))
    except StoreError:
        return None
    return backups.key_digest(key) if key is not None else None


def _modified(file: Path) -> datetime:
    with explained(file):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _note(connection: sqlite3.Connection, current: Checks, now: datetime, data: Mapping[str, object]) -> None:
    """Say in the journal of the whole state what was done."""
    entry = encode_entry(JournalEntry("", Event.DECIDED, now, data=data))
    with heads.changing(connection, current, WHOLE_STATE) as head:
        journal.append(connection, current, head, WHOLE_STATE, [entry])


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
