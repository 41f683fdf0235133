"""Putting a backup in the place of a damaged state, with all that the damaged one still proves.

The journal's rows after the backup are appended again. A call whose record is not proven is left open, so
that evidence or a person says what became of it before anything is made again.
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
from reconciler.core.model import Address
from reconciler.state import contents as wholes
from reconciler.state import rules
from reconciler.state.chain import row_hash
from reconciler.state.codec import decode_entry, decode_record, encode_record
from reconciler.state.contents import Body, Contents, Row, with_entry
from reconciler.state.durable import sync_directory
from reconciler.state.encryption.older import is_older
from reconciler.state.log.damage import Damaged
from reconciler.state.log.row_order import in_one
from reconciler.state.places.sqlite import backups, files, older, schema, seen, whole
from reconciler.state.places.sqlite.database import connect, explained
from reconciler.state.places.sqlite.files import beside
from reconciler.state.places.sqlite.salvage import Salvage, SalvagedRow, salvage
from reconciler.state.places.sqlite.seen import Seen
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, JournalEntry, Restored


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
        is_damaged = _is_damaged(path, copy)
        if backup is not None:
            return _restore_from(backup, _modified(backup), path, copy, now, by, nonce)
        if not is_damaged:
            raise StoreError(f"the state {path} is not damaged", help="to go back to a backup, name its FILE")
        found = backups.newest_good(path)
        if found is not None:
            return _restore_from(found.path, found.at, path, copy, now, by, nonce)
        with suppress(StoreError), explained(path):
            return _restore_key(path, copy, now, by, nonce, new_key())
        raise StoreError(f"there is no good backup of {path}", help="name a backup FILE")


def _copy(path: Path, copy: Path) -> Path:
    """The damaged database with its WAL: reading the files themselves would change them."""
    damaged = path
    for aside in path.parent.glob(f"{path.name}.damaged-*"):
        # An earlier restore ended half-way: the WAL is aside, the database still in place.
        if path.exists() and aside.samefile(path):
            damaged = aside
    for source, target in (
        (damaged, copy),
        (beside(damaged, "-wal"), beside(copy, "-wal")),
        (files.key_path(path), files.key_path(copy)),
    ):
        with suppress(FileNotFoundError):
            shutil.copyfile(source, target)
    return copy


def _is_damaged(path: Path, copy: Path) -> bool:
    """Of the state at `path`, of which `copy` is one, which is migrated where that is possible.

    Raises StateMoved: nothing is wrong with that one, and a backup in its place would be a second state.
    """
    try:
        with explained(path), closing(connect(copy)) as connection:
            if schema.require(connection, path) < schema.VERSION:
                older.migrate(connection, copy)
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
        return True
    return False


def _restore_key(
    path: Path, copy: Path, now: datetime, by: str, nonce: Callable[[], str], key: bytes
) -> Restored:
    """Only the key of an older version is lost: with a new one, every secret is set again."""
    with closing(connect(copy)) as connection:
        contents, version = older.read(connection, copy, key=key)
    note = JournalEntry("", Event.DECIDED, now, data={"new_key": True, "by": by})
    new = copy.with_name("new.db")
    whole.make(new, with_entry(contents, WHOLE_STATE, note), version + 2, nonce)
    return Restored("", None, _kept_as(_swap(path, new, now)), 0, (), "", "new")


def _restore_from(
    source: Path, at: datetime, path: Path, copy: Path, now: datetime, by: str, nonce: Callable[[], str]
) -> Restored:
    with explained(source), backups.reading(source) as connection:
        if whole.is_sealed(connection):
            raise older.sealed_backup(source)
        whole.verify(connection)
        base, version = whole.contents_of(connection), seen.of(connection).version
        if is_older(base.key):
            raise older.sealed_backup(source)
        wholes.verify(base)
    salvaged, known = salvage(copy, base, version), seen.read(path, base.lineage)
    if salvaged.lineage not in ("", base.lineage):
        raise StoreError(f"{source} is a backup of another state", help="name a backup of this state")
    lost = _lost(salvaged, base, known, at, now)
    contents = _merged(base, salvaged, known.serial if lost or salvaged.reopened else 0)
    note = {"restored": source.name, "by": by, "lost": lost, "salvaged": len(salvaged.rows)}
    if lost:
        # Told by every plan, until a person has looked what the platform has.
        note |= {"unclaimed": LOST_ROWS, "because": lost}
    contents = with_entry(contents, WHOLE_STATE, JournalEntry("", Event.DECIDED, now, data=note))
    new = copy.with_name("new.db")
    whole.make(new, contents, max(version, salvaged.changes, known.version) + 1, nonce)
    aside = _kept_as(_swap(path, new, now))
    reopened = tuple(sorted(salvaged.reopened, key=str))
    key: Literal["kept", "restored"] = "kept" if salvaged.key == base.key else "restored"
    return Restored(str(source), at, aside, len(salvaged.rows), reopened, lost, key)


def _merged(base: Contents, salvaged: Salvage, least_serial: int) -> Contents:
    """The backup, with all that was salvaged. `least_serial`: from which scopes that lost some go on."""
    chains: dict[str, list[Row]] = defaultdict(list)
    for known in base.rows:
        chains[known.scope].append(known)
    records, heads, reopened = dict(salvaged.records), dict(base.heads), salvaged.reopened
    for row in salvaged.rows:
        if _closes_one_of(row, reopened):
            continue
        if not row.proven:
            _follow(records, row)
        head = base.head(row.scope) if row.scope not in heads else heads[row.scope]
        hash = row_hash(head.hash, head.seq + 1, row.columns[:-1], row.columns[-1].encode(), row.scope)
        chains[row.scope].append(Row(row.scope, head.seq + 1, row.columns, hash))
        heads[row.scope] = replace(head, seq=head.seq + 1, hash=hash)
    for scope, head in heads.items():
        serial = max(head.serial, salvaged.serials.get(scope, 0), least_serial)
        heads[scope] = replace(head, serial=serial, epoch=max(head.epoch, salvaged.epochs.get(scope, 0)))
    return dataclasses.replace(base, rows=tuple(in_one(chains)), records=records, heads=heads)


def _closes_one_of(row: SalvagedRow, addresses: set[Address]) -> bool:
    _, event, _, address, *_ = row.columns
    return (
        not row.proven
        and rules.changes_a_record(event)
        and address is not None
        and Address.parse(address) in addresses
    )


def _follow(records: dict[Address, Body], row: SalvagedRow) -> None:
    """What was decided after the backup in an entry whose records are not proven."""
    entry = decode_entry(*row.columns[:-1], row.columns[-1].encode())
    if entry.event is not Event.DECIDED or entry.address is None:
        return
    if "forget" in entry.data or "moved_away" in entry.data:
        records.pop(entry.address, None)
    if "to" in entry.data and entry.address in records:
        records[Address.parse(entry.data["to"])] = records.pop(entry.address)
    source = Address.parse(entry.data["moved_from"]) if "moved_from" in entry.data else None
    if source in records:
        body = records[source]
        moved = replace(decode_record(entry.address, body.serial, body.text.encode()), scope=row.scope)
        records[entry.address] = Body(body.serial, encode_record(moved))


def _lost(salvaged: Salvage, base: Contents, known: Seen, at: datetime, now: datetime) -> str:
    """Which rows cannot be read, and from when to when; "" when none is known to be lost."""
    there = len(base.rows) + len(salvaged.rows)
    missing = max(there, salvaged.rows_known or 0, known.rows) - there
    if not missing and (salvaged.rows_known is not None or known.version):
        return ""
    since = max((row.columns[2] for row in salvaged.rows), default=at.isoformat(), key=datetime.fromisoformat)
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
    with suppress(FileNotFoundError):
        files.key_path(path).rename(files.key_path(aside))
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
    """The name of what was replaced; "" for nothing."""
    return str(aside) if any(beside(aside, suffix).exists() for suffix in ("", "-wal", "-shm")) else ""


def _modified(file: Path) -> datetime:
    with explained(file):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
