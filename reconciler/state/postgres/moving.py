"""A whole state in PostgreSQL as `Contents`, and back; and the mark of one that has moved away."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.core.context import BASE
from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import rules
from reconciler.state.codec import decode_record
from reconciler.state.contents import Body, Contents, Head, Row, has_changed, is_there, same
from reconciler.state.postgres import archive, heads, journal, leases, lists, records, schema
from reconciler.state.postgres.line import BEGIN, BEGIN_READING, COMMIT, LIMITS, Line, Statement
from reconciler.state.postgres.line import Row as Fields
from reconciler.state.postgres.lists import Item, Key
from reconciler.state.postgres.problems import Damaged
from reconciler.state.postgres.schema import Known
from reconciler.state.store import no_state

_TABLES = ("leases", "heads", "records", "journal", "archive", "lists")
_AT_ONCE = 5000  # journal rows in one message


@dataclass(slots=True)
class Sending:
    """`begun`: whether the last write of all was sent, whose answer may be lost."""

    begun: bool = False


async def export(line: Line, environment: str) -> Contents:
    """All of it, also of a state that has moved. Raises StoreError where there is none."""
    known = await schema.known(line, environment)
    _, _, *found, _ = await line.ask(BEGIN_READING, LIMITS, *_everything(known, environment, line), COMMIT)
    return _contents(known, environment, found)


async def import_(line: Line, environment: str, contents: Contents, sending: Sending) -> None:
    """Raises StoreError where another state is, or this one itself."""
    if contents.environment != environment:
        raise StoreError(
            f"the copied state belongs to environment `{contents.environment or BASE}`, and not to "
            f"`{environment or BASE}`",
            help="name that environment by --env",
        )
    before = await schema.known(line, environment)
    there = before.identity is not None and before.moved_to == contents.moved_to
    if sending.begun and there and same(await export(line, environment), contents):
        return
    if before.version < schema.VERSION:
        await schema.migrate(line)
    *_, (row,) = await line.ask(BEGIN, LIMITS, schema.ALONE, schema.look(environment))
    before = schema.read(row, line.place)
    if before.identity is not None:
        if before.identity.lineage != contents.lineage or not before.moved_to:
            raise is_there(line.place.shown)
        await line.ask(*_drop(before.identity.id))
    state = await schema.insert_copy(line, environment, contents)
    await line.ask(*_scopes(state, contents))
    rows = journal.rows_of(contents)
    for start in range(0, len(rows), _AT_ONCE):
        await line.ask(journal.insert(state, rows[start : start + _AT_ONCE]))
    sending.begun = True
    await line.ask(COMMIT)


async def retire(line: Line, environment: str, to: str, contents: Contents) -> None:
    """As `Movable.retire`: locks keep others out between the last look and the mark."""
    known = await schema.known(line, environment)
    if known.identity is None:
        raise no_state(line.place.shown)
    state = known.identity.id
    await line.ask(BEGIN, LIMITS, schema.hold(state), heads.lock_all(state))
    known = await schema.known(line, environment)
    now = _contents(known, environment, await line.ask(*_everything(known, environment, line)))
    if now.moved_to not in ("", to) or not same(now, contents):
        raise has_changed(line.place.shown)
    await line.ask(schema.mark_moved(state, to), leases.free_all(state), COMMIT)


async def revive(line: Line, environment: str) -> None:
    known = await schema.known(line, environment)
    if known.identity is None:
        raise no_state(line.place.shown)
    await line.ask(BEGIN, LIMITS, schema.mark_moved(known.identity.id, ""), COMMIT)


def _everything(known: Known, environment: str, line: Line) -> list[Statement]:
    if known.identity is None:
        raise no_state(line.place.shown)
    state = [known.identity.id]
    return [
        schema.look(environment),
        (heads.SELECT, state),
        (leases.EPOCHS, state),
        (journal.SELECT, state),
        (archive.SELECT, state),
        (records.SELECT, state),
    ]


def _contents(known: Known, environment: str, found: Sequence[Sequence[Fields]]) -> Contents:
    """Of the answers to `_everything`."""
    (row,), ends, epochs, rows, packed, bodies = found
    identity, moved_to = known.identity, row[5]
    if identity is None or row[1] != identity.id:
        raise Damaged("it was replaced while it was read")
    epoch_of: dict[str, int] = dict(epochs)
    read = heads.read(ends)
    return Contents(
        identity.lineage,
        identity.key,
        environment,
        tuple(Row(row[1], row[2], journal.entry_of(row), row[4]) for row in archive.merged(rows, packed)),
        {
            Address(kind, name, app or None, ordinal): Body(serial, body)
            for kind, app, name, ordinal, _, _, serial, body, _ in bodies
        },
        {
            scope: Head(head.seq, head.hash, head.serial, epoch_of.get(scope, 0))
            for scope, head in read.items()
        },
        moved_to,
    )


def _scopes(state: int, contents: Contents) -> list[Statement]:
    """Heads, leases, records and lists."""
    listed: dict[Key, Item] = {}
    for row in contents.rows:
        lists.apply(listed, rules.effect_of_row(row.columns), row.scope, row.seq)
    bodies = [
        (decode_record(address, body.serial, body.text.encode()), body.text)
        for address, body in contents.records.items()
    ]
    known = {
        scope: heads.Head(scope, head.seq, head.hash, head.serial) for scope, head in contents.heads.items()
    }
    for record, _ in bodies:
        known[record.scope].records += 1
    for key, item in listed.items():
        known[item.scope].lists += lists.weight(key, item)
    epochs = [(scope, head.epoch) for scope, head in contents.heads.items()]
    statements = [heads.insert(state, known.values()), leases.insert(state, epochs)]
    if bodies:
        statements.append(records.insert(state, bodies))
    if listed:
        statements.append(lists.insert(state, listed))
    return statements


def _drop(state: int) -> list[Statement]:
    statements: list[Statement] = [
        (f"DELETE FROM reconcile.{table} WHERE state = %s", [state]) for table in _TABLES
    ]
    return [*statements, ("DELETE FROM reconcile.states WHERE id = %s", [state])]
