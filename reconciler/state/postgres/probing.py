"""Whether a database keeps its word: of changes at the same moment none is lost, and who reads sees them all.

A balancer before two servers, a replica that answers reads, or a pooler that takes transactions apart does
not keep it, and a state that is kept there would forget what was sent to the platform.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio
from msgspec import Struct

from reconciler.core.errors import StoreError
from reconciler.state.postgres.line import BEGIN, BEGIN_READING, COMMIT, LIMITS, Line, Row, Statement

WRITERS = 4
_TIMES = 20
_TRIES = (
    WRITERS * _TIMES
)  # of one change: where another one was faster each time, all of them are made by then

_TRANSACTION: Statement = ("SELECT pg_backend_pid(), txid_current()", ())


class _Refused(Exception):
    """Says which promise was broken."""


@dataclass(slots=True)
class _Writer:
    """`told`: how many changes it was told are stored. `behind`: how many reads did not show the last one."""

    line: Line
    told: int = 0
    seen: int = 0
    behind: int = 0
    failure: Exception | None = None


async def probe(lines: Sequence[Line], nonce: Callable[[], str], *, with_schema: bool) -> None:
    """Raises StoreError that says which promise was broken. Leaves nothing behind.

    `lines`: one for each writer. `with_schema`: there is the schema of states, and what is changed is a row
    of no state in its table of leases; else it stands in a schema that is made for it.
    """
    first, name = lines[0], f"reconcile_probe_{nonce()}"
    counter = _Counter("reconcile" if with_schema else name, name)
    own_schema = [] if with_schema else counter.make
    try:
        await first.run(lambda: first.ask(BEGIN, LIMITS, *own_schema, counter.insert, COMMIT))
        await first.run(lambda: _one_transaction(first))
        await _count([_Writer(line) for line in lines], counter, nonce)
    except _Refused as refused:
        raise StoreError(
            f"a state cannot be kept in {first.place.shown}: {refused}",
            help="two runners would overwrite each other's work there; name the primary server itself, or a "
            "pooler whose pool_mode is transaction",
        ) from None
    finally:
        with anyio.CancelScope(shield=True), suppress(StoreError):
            await first.run(lambda: first.ask(counter.delete if with_schema else counter.drop))


class _Counter(Struct, frozen=True):
    """A row that all writers count in, each time with a token of its own."""

    schema: str
    name: str

    @property
    def make(self) -> list[Statement]:
        columns = "state integer, scope text, epoch bigint, token text, PRIMARY KEY (state, scope)"
        return [
            (f"CREATE SCHEMA IF NOT EXISTS {self.schema}", ()),
            (f"CREATE TABLE IF NOT EXISTS {self.schema}.leases ({columns})", ()),
        ]

    @property
    def drop(self) -> Statement:
        return f"DROP SCHEMA IF EXISTS {self.schema} CASCADE", ()

    @property
    def insert(self) -> Statement:
        text = f"""INSERT INTO {self.schema}.leases (state, scope, epoch, token) VALUES (0, %s, 0, '')
            ON CONFLICT DO NOTHING"""
        return text, [self.name]

    @property
    def delete(self) -> Statement:
        return f"DELETE FROM {self.schema}.leases WHERE state = 0 AND scope = %s", [self.name]

    def read(self, *, to_write: bool = False) -> Statement:
        text = f"SELECT epoch, token FROM {self.schema}.leases WHERE state = 0 AND scope = %s"
        return f"{text}{' FOR UPDATE' if to_write else ''}", [self.name]

    def add(self, token: str, before: str) -> Statement:
        text = f"""UPDATE {self.schema}.leases SET epoch = epoch + 1, token = %s
            WHERE state = 0 AND scope = %s AND token = %s RETURNING epoch"""
        return text, [token, self.name, before]


async def _one_transaction(line: Line) -> None:
    _, _, begun = await line.ask(BEGIN, LIMITS, _TRANSACTION)
    ended, _ = await line.ask(_TRANSACTION, COMMIT)
    if begun != ended:
        raise _Refused("it takes a transaction apart, so that a part of a change is stored without the rest")


async def _count(writers: Sequence[_Writer], counter: _Counter, nonce: Callable[[], str]) -> None:
    async with anyio.create_task_group() as tasks:
        for writer in writers:
            tasks.start_soon(_write, writer, counter, nonce)
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure
    line = writers[0].line
    _, _, rows, _ = await line.run(lambda: line.ask(BEGIN, LIMITS, counter.read(to_write=True), COMMIT))
    kept, _ = _the_row(rows)
    told = sum(writer.told for writer in writers)
    if kept < told:
        raise _Refused(f"it lost {told - kept} of {told} changes that were made at the same time")
    if any(writer.behind for writer in writers):
        raise _Refused("its reads do not show what was stored before, as where a replica answers them")
    if told < WRITERS * _TIMES:
        raise _Refused(f"it refused a change {_TRIES} times, although others got theirs")


async def _write(writer: _Writer, counter: _Counter, nonce: Callable[[], str]) -> None:
    try:
        for _ in range(_TIMES):
            if not await _change(writer, counter, nonce()):
                return
    except (StoreError, _Refused) as failure:
        writer.failure = failure


async def _change(writer: _Writer, counter: _Counter, token: str) -> bool:
    """Whether the change with this `token` landed."""
    for _ in range(_TRIES):
        if await writer.line.run(lambda: _try(writer, counter, token)):
            writer.told += 1
            return True
    return False


async def _try(writer: _Writer, counter: _Counter, token: str) -> bool:
    """Read as `load` does, then write as a commit does, if nobody has written in between."""
    line = writer.line
    _, _, rows, _ = await line.ask(BEGIN_READING, LIMITS, counter.read(), COMMIT)
    seen, before = _the_row(rows)
    writer.behind += seen < writer.seen
    if before == token:
        return True  # by an attempt whose answer was lost
    _, _, changed, _ = await line.ask(BEGIN, LIMITS, counter.add(token, before), COMMIT)
    for (epoch,) in changed:
        writer.seen = epoch
    return bool(changed)


def _the_row(rows: Sequence[Row]) -> Row:
    if not rows:
        raise _Refused("it does not show on one connection what was stored on another")
    return rows[0]
