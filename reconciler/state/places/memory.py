"""A state in memory: for tests, and the shortest place to read before writing another.

Its leases last as long as their handle, or by the clock that it is given, where `lease_s` says so.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from reconciler.core.clock import Clock
from reconciler.core.model import StateRecord
from reconciler.state.codec import encode_entry, encode_record
from reconciler.state.log import head as heads
from reconciler.state.log.bucket import Bucket, Found, Layout, PreconditionFailed, unsealed
from reconciler.state.log.changes import StoredRecord, sum_of
from reconciler.state.log.head import Head
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import ScopeState, ScopeSummary
from reconciler.state.log.segments import Files
from reconciler.state.log.store import LogStore
from reconciler.state.rules import View
from reconciler.state.store import WHOLE_STATE, State


@dataclass(eq=False, slots=True)
class MemoryState:
    """What all handles on one state share. `lease_s`: how long a lease lasts unless it is renewed.

    `objects`: by key, with when each was written, by the monotonic clock. `held`: leases of open handles.
    """

    clock: Clock
    lease_s: float = math.inf
    randomness: Callable[[int], bytes] = os.urandom
    objects: dict[str, tuple[Found, float]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    writes: int = 0
    lock: Lock = field(default_factory=Lock)


def holding_state(state: State, key: bytes, clock: Clock, lease_s: float = math.inf) -> MemoryState:
    """What holds `state` as it stands, without a journal. `key`: of fingerprints."""
    known = MemoryState(clock, lease_s)
    if not state.lineage:
        return known
    records = [*state.records.values(), *state.remembered.values()]
    scopes = {WHOLE_STATE, *state.serials, *(record.scope for record in records)}
    scopes |= {entry.data.get("scope", "") for entry in (*state.open_intents, *state.unclaimed)}
    root = Root(state.lineage, "", key, "made", "made", scopes=dict.fromkeys(scopes, 1))
    bucket, layout = MemoryBucket(known), Layout("", root.generation)
    bucket.create(layout.root, root.encode())
    for scope in scopes:
        folded = _folded(state, scope, [record for record in records if record.scope == scope])
        head = Files(bucket, layout).copied(Head(scope, state.lineage, serial=1).of(folded.marks), [], folded)
        bucket.create(layout.head(scope), heads.encode(head, ()))
    return known


def _folded(state: State, scope: str, records: Sequence[StateRecord]) -> ScopeState:
    intents = [entry for entry in state.open_intents if entry.data.get("scope", "") == scope]
    unclaimed = [entry for entry in state.unclaimed if entry.data.get("scope", "") == scope]
    view = View(
        {(entry.run, entry.step, entry.attempt): encode_entry(entry) for entry in intents},
        state.plans_run if scope == WHOLE_STATE else frozenset(),
        {entry.data["unclaimed"]: encode_entry(entry) for entry in unclaimed},
    )
    stored = {
        record.address: StoredRecord(record.address, record.serial, encode_record(record))
        for record in records
    }
    serial = max([state.serials.get(scope, 0), *(record.serial for record in records)])
    marks = ScopeSummary(
        state.lineage, serial=serial, records=len(stored), sum=sum_of(stored.values()), view=view
    )
    return ScopeState(marks, stored)


class MemoryBucket(Bucket):
    """The objects of a `MemoryState`."""

    is_quick = is_sure = is_of_one_moment = True
    at_once = 1

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    @property
    def place(self) -> str:
        return "in memory"

    def get_all(self, keys: Sequence[str]) -> list[Found | None]:
        with self._state.lock:
            found = [self._state.objects.get(key) for key in keys]
        return [item[0] if item is not None else None for item in found]

    def create(self, key: str, body: bytes) -> str:
        return self.replace(key, body, "")

    def replace(self, key: str, body: bytes, tag: str) -> str:
        with self._state.lock:
            there = self._state.objects.get(key)
            if (there[0].tag if there is not None else "") != tag:
                raise PreconditionFailed
            self._state.writes += 1
            new = Found(body, str(self._state.writes))
            self._state.objects[key] = new, self._state.clock.monotonic()
        return new.tag

    def delete(self, key: str) -> None:
        with self._state.lock:
            self._state.objects.pop(key, None)

    def list(self, prefix: str) -> Mapping[str, str]:
        with self._state.lock:
            return {
                key: found.tag for key, (found, _) in self._state.objects.items() if key.startswith(prefix)
            }


class MemoryHolders(Exclusion):
    """Holders that live as long as their handle is open, or beat: an `Exclusion`."""

    def __init__(self, state: MemoryState) -> None:
        self.lease_s = state.lease_s
        self._state = state
        self._ours: set[str] = set()

    def begin(self, id: str) -> None:
        self._ours.add(id)
        self._state.held.add(id)

    def end(self, id: str) -> None:
        self._ours.discard(id)
        self._state.held.discard(id)

    def rest_s(self, beat: Beat, tag: str) -> float | None:
        if self.lease_s == math.inf:
            return None if beat.id in self._state.held else 0.0
        written = (at_s for found, at_s in list(self._state.objects.values()) if found.tag == tag)
        age_s = self._state.clock.monotonic() - next(written, -math.inf)
        return None if age_s < self.lease_s else 0.0

    def close(self) -> None:
        self._state.held -= self._ours
        self._ours.clear()


class MemoryStore(LogStore):
    """One handle on a `MemoryState`, as one process has it."""

    def __init__(self, state: MemoryState, seal: Callable[[Bucket], Bucket] = unsealed) -> None:
        bucket = seal(MemoryBucket(state))
        super().__init__(bucket, state.clock, state.randomness, exclusion=MemoryHolders(state))

    @property
    def state(self) -> State:
        """What is known now."""
        return self._load()
