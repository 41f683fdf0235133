"""A state in memory: for tests, and the shortest complete `Store` to read before writing another.

Its leases really expire, by the clock that it is given, where `lease_s` says so.
"""

import os
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from anyio.lowlevel import checkpoint

from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StateMoved, StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.state import history, rules
from reconciler.state.chain import row_hash
from reconciler.state.codec import EntryColumns, decode_entry, decode_record, encode_entry, encode_record
from reconciler.state.contents import Body, Contents, Head, Row, has_changed, is_there, same, verify
from reconciler.state.rules import View
from reconciler.state.store import (
    JournalEntry,
    Lease,
    State,
    ends_too_soon,
    no_longer_ours,
    no_state,
    not_covered,
)

_PLACE = "in memory"
_POLL_S = 0.2  # how often a held lease is asked for again


@dataclass(slots=True)
class Holding:
    """Who took a scope last. `ends_s`: by the monotonic clock; None for as long as its handle is open."""

    epoch: int
    holder: str
    since_s: float
    ends_s: float | None
    handle: "MemoryStore | None"


@dataclass(eq=False, slots=True)
class MemoryState:
    """What all handles on one state share. `lease_s`: how long a lease lasts unless it is renewed."""

    clock: Clock
    lease_s: float | None = None
    randomness: Callable[[int], bytes] = os.urandom
    lineage: str = ""
    key: bytes = b""
    records: Mapping[Address, StateRecord] = field(default_factory=dict)
    view: View[JournalEntry] = field(default_factory=View)
    rows: list[Row] = field(default_factory=list)
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)  # of the journal of each scope
    environment: str = ""
    moved_to: str = ""
    serials: dict[str, int] = field(default_factory=dict)
    holdings: dict[str, Holding] = field(default_factory=dict)
    version: int = 0

    @property
    def heads(self) -> dict[str, str]:
        """As `State.heads`."""
        return {scope: hash for scope, (seq, hash) in self.ends.items() if seq}


class MemoryStore:
    """One handle on a `MemoryState`, as one process has it: a `store.Store`, and `contents.Movable`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._new_key = b""

    async def load(self, scopes: Collection[str] | None = None) -> State:
        await checkpoint()
        known = self._alive()
        state = State(
            known.lineage,
            known.records,
            tuple(known.view.open_intents.values()),
            known.view.plans_run,
            unclaimed=tuple(known.view.unclaimed.values()),
            half_moved=tuple(known.view.half_moved.values()),
            serials=dict(known.serials),
            heads=known.heads,
            lengths={scope: seq for scope, (seq, _) in known.ends.items()},
            version=str(known.version),
            platform=known.view.platform,
        )
        return rules.as_moved(state).of(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        await checkpoint()
        entries = [(row.scope, _decoded(row.columns)) for row in self._alive().rows]
        return history.of_runs_since(entries, since)

    async def create(self) -> bool:
        key = await self.fingerprint_key()
        if self._state.lineage:
            return False
        self._state.key = key
        self._state.lineage = str(uuid.UUID(bytes=self._state.randomness(16), version=4))
        return True

    async def fingerprint_key(self) -> bytes:
        await checkpoint()
        self._alive()
        self._new_key = self._new_key or self._state.randomness(32)
        return self._state.key or self._new_key

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        wanted = sorted(set(scopes))
        deadline = self._now_s() + timeout_s
        await checkpoint()
        if not self._alive().lineage:
            raise no_state(_PLACE)
        # From the last look at who holds a scope until it is taken, nothing may be awaited.
        while (held := next(filter(self._held, wanted), None)) is not None:
            remaining_s = deadline - self._now_s()
            if remaining_s <= 0:
                raise self._locked(held)
            await self._state.clock.sleep(min(_POLL_S, remaining_s))
            self._alive()
        for scope in wanted:
            epoch = self._state.holdings[scope].epoch + 1 if scope in self._state.holdings else 1
            self._state.holdings[scope] = Holding(epoch, holder, self._now_s(), self._end_s(), self)
        return self._leased(holder, {scope: self._state.holdings[scope].epoch for scope in wanted})

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        await checkpoint()
        self._alive()
        return {scope: self._locked(scope) for scope in scopes if self._held(scope)}

    async def renew(self, lease: Lease) -> Lease:
        await self.check(lease)
        for scope in lease.epochs:
            self._state.holdings[scope].ends_s = self._end_s()
        return self._leased(lease.holder, lease.epochs)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        await checkpoint()
        self._check(lease, for_s)

    async def release(self, lease: Lease) -> None:
        await checkpoint()
        for scope, epoch in lease.epochs.items():
            holding = self._state.holdings[scope]
            if holding.epoch == epoch:
                holding.handle = None

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """As in `Store`. What it keeps went through JSON, so that nobody can change it from outside."""
        scope = lease.scope
        encoded = [encode_entry(entry) for entry in entries]
        entries = [_decoded(columns) for columns in encoded]
        bodies = [(record, encode_record(record).encode()) for record in put]
        await checkpoint()
        self._check(lease)
        ends, rows = dict(self._state.ends), list[Row]()
        view, records, serials = self._state.view, dict(self._state.records), dict(self._state.serials)
        for entry, columns in zip(entries, encoded, strict=True):
            view = rules.after(view, rules.effect(entry), entry)
            seq, before = ends.get(scope, (0, self._state.lineage))
            hash = row_hash(before, seq + 1, columns[:-1], columns[-1].encode(), scope)
            ends[scope] = seq + 1, hash
            rows.append(Row(scope, seq + 1, columns, hash))
        for address in remove:
            gone = records.pop(address, None)
            if gone is not None and gone.scope != scope:
                raise not_covered(gone.scope, address)
        stored = []
        for record, body in bodies:
            if record.scope != scope:
                raise not_covered(record.scope, record.address)
            there = records.get(record.address)
            if (record.serial, scope) != ((there.serial, there.scope) if there is not None else (0, scope)):
                raise StoreError(
                    f"the record of {record.address} has changed since it was read", help="run again"
                )
            serials[scope] = serials.get(scope, 0) + 1
            stored.append(decode_record(record.address, serials[scope], body))
            records[record.address] = stored[-1]
        self._state.view, self._state.records, self._state.serials = view, records, serials
        self._state.ends = ends
        self._state.rows += rows
        self._state.version += 1
        return tuple(stored)

    async def close(self) -> None:
        for holding in self._state.holdings.values():
            if holding.handle is self and holding.ends_s is None:
                holding.handle = None

    async def export(self) -> Contents:
        await checkpoint()
        known = self._state
        if not known.lineage:
            raise no_state(_PLACE)
        heads = {}
        for scope in {*known.ends, *known.serials, *known.holdings}:
            seq, hash = known.ends.get(scope, (0, known.lineage))
            epoch = known.holdings[scope].epoch if scope in known.holdings else 0
            heads[scope] = Head(seq, hash, known.serials.get(scope, 0), epoch)
        bodies = {each.address: Body(each.serial, encode_record(each)) for each in known.records.values()}
        rows = tuple(known.rows)
        return Contents(known.lineage, known.key, known.environment, rows, bodies, heads, known.moved_to)

    async def import_(self, contents: Contents) -> None:
        view = verify(contents)
        await checkpoint()
        known = self._state
        if known.lineage and not (known.moved_to and known.lineage == contents.lineage):
            raise is_there(_PLACE)
        entries = [_decoded(row.columns) for row in contents.rows]
        known.lineage, known.key, known.environment = contents.lineage, contents.key, contents.environment
        known.rows, known.moved_to = list(contents.rows), contents.moved_to
        known.records = {
            address: decode_record(address, body.serial, body.text.encode())
            for address, body in contents.records.items()
        }
        known.view = View(
            {key: entries[index] for key, index in view.open_intents.items()},
            view.plans_run,
            {id: entries[index] for id, index in view.unclaimed.items()},
            {source: entries[index] for source, index in view.half_moved.items()},
            view.platform,
        )
        heads = contents.heads.items()
        known.ends = {scope: (head.seq, head.hash) for scope, head in heads}
        known.serials = {scope: head.serial for scope, head in heads}
        known.holdings = {
            scope: Holding(head.epoch, "", 0.0, None, None) for scope, head in heads if head.epoch
        }
        known.version += 1

    async def retire(self, to: str, contents: Contents) -> None:
        now = await self.export()
        if now.moved_to not in ("", to) or not same(now, contents):
            raise has_changed(_PLACE)
        for holding in self._state.holdings.values():
            holding.handle = None
        self._state.moved_to = to

    async def revive(self) -> None:
        await checkpoint()
        self._state.moved_to = ""

    def _alive(self) -> MemoryState:
        if self._state.moved_to:
            raise StateMoved(_PLACE, self._state.moved_to)
        return self._state

    def _now_s(self) -> float:
        return self._state.clock.monotonic()

    def _end_s(self) -> float | None:
        return None if self._state.lease_s is None else self._now_s() + self._state.lease_s

    def _leased(self, holder: str, epochs: Mapping[str, int]) -> Lease:
        lasts_s = self._state.lease_s
        ends: datetime | None = None
        if lasts_s is not None:
            ends = self._state.clock.now() + timedelta(seconds=lasts_s)
        return Lease(holder, epochs, ends)

    def _held(self, scope: str) -> bool:
        holding = self._state.holdings.get(scope)
        if holding is None or holding.handle is None:
            return False
        return holding.ends_s is None or holding.ends_s > self._now_s()

    def _locked(self, scope: str) -> Locked:
        holding = self._state.holdings[scope]
        return Locked(scope, holding.holder, self._now_s() - holding.since_s)

    def _check(self, lease: Lease, for_s: float = 0) -> None:
        self._alive()
        for scope, epoch in lease.epochs.items():
            holding = self._state.holdings.get(scope)
            if holding is None or holding.epoch != epoch or not self._held(scope):
                raise no_longer_ours(scope)
            if holding.ends_s is not None and holding.ends_s - self._now_s() <= for_s:
                raise ends_too_soon(scope, for_s)


def _decoded(columns: EntryColumns) -> JournalEntry:
    return decode_entry(*columns[:-1], columns[-1].encode())
