"""Commits in PostgreSQL: the tables are read under locks, the new rows are computed here, and stored.

One transaction in two round trips, for all who wait to commit at that moment. While a connection is lost, the
server still holds the locks of its transaction or has ended it. So the process that gets the locks
again then sees the final result: whether the commit has landed.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import rules
from reconciler.state.codec import EntryColumns
from reconciler.state.postgres import archive, heads, journal, leases, lists, records, schema
from reconciler.state.postgres.heads import Head
from reconciler.state.postgres.line import BEGIN, COMMIT, LIMITS, Line, Row, Statement
from reconciler.state.postgres.lists import Item, Key
from reconciler.state.postgres.schema import Identity
from reconciler.state.store import Lease, no_longer_ours, not_covered

_ROWS = f"""SELECT w.scope, w.seq, j.hash, {archive.COLUMNS}
    FROM unnest(%s::text[], %s::bigint[]) AS w(scope, seq)
    LEFT JOIN reconcile.journal j ON j.state = %s AND j.scope = w.scope AND j.seq = w.seq
    {archive.beside("w.scope", "w.seq")}"""
_SELECT_LISTS = """SELECT l.list, l.key, l.scope, l.seq, l.value FROM reconcile.lists l
    JOIN unnest(%s::text[], %s::text[]) AS w(list, key) ON l.list = w.list AND l.key = w.key
    WHERE l.state = %s"""
_DELETE_LISTS = """DELETE FROM reconcile.lists l USING unnest(%s::text[], %s::text[]) AS w(list, key)
    WHERE l.list = w.list AND l.key = w.key AND l.state = %s"""


@dataclasses.dataclass(eq=False, slots=True)
class Request:
    """One call of `commit`. `lease`: None for a change of the state itself, under `leases.lock`.

    `outcome`: what it returns or raises; None while it waits.
    """

    lease: Lease | None
    scope: str
    entries: Sequence[EntryColumns]
    put: Sequence[tuple[StateRecord, str]] = ()
    remove: Sequence[Address] = ()
    outcome: Sequence[StateRecord] | StoreError | None = None


@dataclasses.dataclass(slots=True)
class Sent:
    """What was sent to be committed, to find out whether it landed when its answer is lost.

    `rows`: the hashes of its newest journal rows, by scope and seq; `heads`: those that it changes.
    """

    rows: dict[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    heads: dict[str, Head] = dataclasses.field(default_factory=dict)
    outcomes: list[Sequence[StateRecord] | StoreError] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Standing:
    """The rows that a batch is about: as they are in the tables, or as they should be after it."""

    heads: dict[str, Head]
    held: dict[str, int]  # scope → epoch of the lease that is good
    records: dict[Address, tuple[str, int]]  # scope and serial
    lists: dict[Key, Item]
    journal: list[Row] = dataclasses.field(default_factory=list)
    bodies: dict[Address, tuple[StateRecord, str]] = dataclasses.field(default_factory=dict)

    def copy(self) -> "Standing":
        heads = {scope: dataclasses.replace(head) for scope, head in self.heads.items()}
        return Standing(
            heads, self.held, dict(self.records), dict(self.lists), list(self.journal), dict(self.bodies)
        )


async def commit(
    line: Line,
    identity: Identity,
    batch: Sequence[Request],
    sent: Sent,
    *,
    begun: bool = False,
    also: Sequence[Statement] = (),
) -> None:
    """Store what can be stored of `batch`, and give each its outcome. Repeat it when the line was lost.

    `sent` is new for a batch, and the same when it is repeated. `begun`: whether the transaction is; `also`:
    what is done in it beside.
    """
    state = identity.id
    scopes = sorted({request.scope for request in batch})
    addresses = {each for request in batch for each in _addresses(request)}
    effects = [rules.effect_of_row(columns) for request in batch for columns in request.entries]
    keys = {key for effect in effects for key in lists.touched(effect)}
    *_, current, ends, known, there, listed, landed = await line.ask(
        *(() if begun else (BEGIN, LIMITS)),
        leases.current(state, scopes),
        heads.lock(state, scopes),
        # What is not locked is read after the locks.
        schema.look_again(identity),
        records.find(state, addresses),
        (_SELECT_LISTS, [*_pairs(keys), state]),
        (_ROWS, [*_pairs(sent.rows), state, state]),
    )
    schema.refuse_replaced(known, identity, line.place)
    before = Standing(
        heads.read(ends),
        {scope: epoch for scope, epoch, held in current if held},
        records.found(there),
        lists.items(listed),
    )
    if _has_landed(sent, landed, before.heads):
        await line.ask(COMMIT)
    else:
        after, sent.outcomes = _after(before, batch)
        sent.heads = {each.scope: each for each in after.heads.values() if each != before.heads[each.scope]}
        sent.rows = {(scope, seq): hash for scope, seq, _, hash, *_ in after.journal}
        await line.ask(*_changes(state, before, after), *also, COMMIT)
    for request, outcome in zip(batch, sent.outcomes, strict=True):
        request.outcome = outcome


def _after(
    before: Standing, batch: Sequence[Request]
) -> tuple[Standing, list[Sequence[StateRecord] | StoreError]]:
    """The rows after `batch`. A request that cannot be stored gets its failure, and changes nothing."""
    standing, outcomes = before.copy(), list[Sequence[StateRecord] | StoreError]()
    for request in batch:
        tried = standing.copy()
        try:
            outcomes.append(_apply(tried, request))
        except StoreError as failure:
            outcomes.append(failure)
        else:
            standing = tried
    return standing, outcomes


def _apply(standing: Standing, request: Request) -> Sequence[StateRecord]:
    scope, lease = request.scope, request.lease
    if scope not in standing.heads or (lease is not None and standing.held.get(scope) != lease.epochs[scope]):
        raise no_longer_ours(scope)
    head = standing.heads[scope]
    for columns in request.entries:
        standing.journal.append(journal.append(head, columns))
        effect = rules.effect_of_row(columns)
        keys = set(lists.touched(effect))
        head.lists -= _weight(standing.lists, keys)
        lists.apply(standing.lists, effect, scope, head.seq)
        head.lists += _weight(standing.lists, keys)
    for address in request.remove:
        there = standing.records.pop(address, None)
        if there is not None and there[0] != scope:
            raise not_covered(there[0], address)
        standing.bodies.pop(address, None)
        head.records -= there is not None
    stored = []
    for record, body in request.put:
        if record.scope != scope:
            raise not_covered(record.scope, record.address)
        there = standing.records.get(record.address)
        if (scope, record.serial) != (there if there is not None else (scope, 0)):
            raise StoreError(
                f"the record of {record.address} has changed since it was read", help="run again"
            )
        head.records += there is None
        head.serial += 1
        stored.append(replace(record, serial=head.serial))
        standing.records[record.address] = scope, head.serial
        standing.bodies[record.address] = stored[-1], body
    return tuple(stored)


def _changes(state: int, before: Standing, after: Standing) -> list[Statement]:
    statements: list[Statement] = []
    gone = [address for address, there in before.records.items() if after.records.get(address) != there]
    if gone:
        statements.append(records.delete(state, gone))
    if after.bodies:
        statements.append(records.insert(state, list(after.bodies.values())))
    if after.journal:
        statements.append(journal.insert(state, after.journal))
    dropped = [key for key, item in before.lists.items() if after.lists.get(key) != item]
    if dropped:
        statements.append((_DELETE_LISTS, [*_pairs(dropped), state]))
    added = {key: item for key, item in after.lists.items() if before.lists.get(key) != item}
    if added:
        statements.append(lists.insert(state, added))
    changed = [head for scope, head in after.heads.items() if head != before.heads[scope]]
    if changed:
        statements.append(heads.store(state, changed))
    return statements


def _has_landed(sent: Sent, landed: Iterable[Row], now: dict[str, Head]) -> bool:
    """Whether a commit whose answer was lost is stored: seen by its journal rows, or else by its heads."""
    if sent.rows:
        return {(scope, seq): _hash(seq, *rest) for scope, seq, *rest in landed} == sent.rows
    return bool(sent.heads) and all(now[scope] == head for scope, head in sent.heads.items())


def _hash(seq: int, hash: str | None, *segment: Any) -> str | None:
    """Of a row that stands in the journal, or was packed since it was sent; None for no row."""
    if hash is None and segment[0] is not None:
        return str(archive.row(segment, seq)[4])
    return hash


def _addresses(request: Request) -> Iterable[Address]:
    return [*(record.address for record, _ in request.put), *request.remove]


def _weight(standing: dict[Key, Item], keys: Iterable[Key]) -> int:
    return sum(lists.weight(key, standing[key]) for key in keys if key in standing)


def _pairs(pairs: Iterable[tuple[str, str | int]]) -> list[list[str | int]]:
    """The pairs as two columns."""
    rows = list(pairs)
    return [[first for first, _ in rows], [second for _, second in rows]]
