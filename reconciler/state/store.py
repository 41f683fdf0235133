"""The Store: what every state backend keeps, and what it promises.

`tests/state/contract.py` shows whether a backend keeps these promises.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from reconciler.core.advice import command
from reconciler.core.errors import LeaseLost, Locked, StoreError, named
from reconciler.core.model import Address, StateRecord


class Event(StrEnum):
    """What an entry says. `RUN_*` and DECIDED (a person's word) have no step.

    An INTENT is open until a later entry of its run, step and attempt closes it.
    DONE, FAILED, SETTLED and PENDING close: PENDING says that the call succeeded and its wait is not
    over. UNKNOWN does not.
    """

    RUN_STARTED = "run.started"
    INTENT = "step.intent"
    DONE = "step.done"
    FAILED = "step.failed"
    UNKNOWN = "step.unknown"
    SETTLED = "step.settled"
    PENDING = "step.pending"
    RUN_OBSERVED = "run.observed"
    RUN_FINISHED = "run.finished"
    DECIDED = "decided"


class JournalEntry(Struct, frozen=True):
    """One line of the journal. `attempt` counts the intents of one step in one run, from 1.

    `data` is JSON without secret values. For an INTENT it holds the step as it will be sent, its
    `scope` and the ids listed before (`baseline`); for RUN_STARTED what `Run` says, and
    the used `approvals` (each its `id`, `statement` and `signature`), and why each object may lose data
    (`losses`: with its size and what a drill has proven); for RUN_OBSERVED
    answers that the run planned with. A DECIDED entry may hold the id of an object that a call made and
    no record tracks under `unclaimed` (with its `scope`), and under `claimed` one about which a person
    has decided since; and under `platform` the address of the platform that the state is about.
    """

    run: str
    event: Event
    at: datetime
    address: Address | None = None
    step: str = ""
    attempt: int = 1
    data: Mapping[str, Any] = field(default_factory=dict)


class Run(Struct, frozen=True):
    """What RUN_STARTED says of a run. What is not known, or was written by an older program, is "" or None.

    `plan`: the id of the plan that runs, `digest` its digest; `resources`: the digest of the resources that
    it was made from.
    `actor`: who runs it; `url`: of the CI run; `reason`: why, in a person's words. `revision`: the git
    revision of the manifests; `dirty`: whether they differed from it. `environment`: as in `Context`.
    """

    plan: str
    resources: str = ""
    digest: str = ""
    actor: str = ""
    revision: str = ""
    reason: str = ""
    url: str = ""
    environment: str = ""
    dirty: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Run":
        """What is known of the run. Fields of a newer program are left out."""
        texts = {name: str(data.get(name, "")) for name in cls.__struct_fields__ if name != "dirty"}
        dirty = data.get("dirty")
        return cls(**texts, dirty=dirty if isinstance(dirty, bool) else None)


WHOLE_STATE = ""  # the scope of entries that concern no resource, such as who took the state over
REMEMBERED = "Remembered"  # the kind of records that are about no object (`State.remembered`)


class Lease(Struct, frozen=True):
    """The right to change `scopes`. `epochs`: for each scope the one it was taken at; they only grow."""

    holder: str
    epochs: Mapping[str, int]

    @property
    def scopes(self) -> tuple[str, ...]:
        return tuple(sorted(self.epochs))

    def of(self, scope: str) -> "Lease":
        """The right to change one scope, as `Store.commit` wants it. Raises StoreError for another's."""
        if scope not in self.epochs:
            raise StoreError(f"the lease does not cover {named(scope)}")
        return replace(self, epochs={scope: self.epochs[scope]})

    @property
    def scope(self) -> str:
        """The one scope. Raises ValueError for a lease of none or several."""
        (scope,) = self.epochs
        return scope


def no_state(place: object) -> StoreError:
    init, restore = command("state", "init"), command("state", "restore", "FILE")
    return StoreError(
        f"there is no state {place}",
        help=f"if there was one, check --state and RECONCILE_STATE, or restore it with `{restore}`; "
        f"for a new project, `{init}` creates one",
        advice=(restore, init),
    )


def refuse_beside_traces(place: object, traces: Sequence[object]) -> None:
    """Raises StoreError where an older state has left something: it may be lost, and have to come back."""
    if traces:
        restore = command("state", "restore", "FILE")
        raise StoreError(
            f"there was a state {place}: {traces[0]} still exists",
            help=f"restore it with `{restore}`; to start without it, move away {', '.join(map(str, traces))}",
            advice=(restore,),
        )


def of_runs_since(
    entries: Sequence[tuple[str, JournalEntry]], since: datetime | None
) -> Sequence[tuple[str, JournalEntry]]:
    """What `Store.journal` returns of all `entries`."""
    if since is None:
        return entries
    runs = {entry.run for _, entry in entries if entry.run and entry.at >= since}
    return [item for item in entries if item[1].run in runs or item[1].at >= since]


def not_covered(scope: str, address: Address) -> StoreError:
    return StoreError(f"the lease does not cover {named(scope)}, the scope of {address}")


def no_longer_ours(scope: str) -> LeaseLost:
    return LeaseLost(
        f"the lease of {named(scope)} is no longer ours",
        help="nothing was written; run again to continue from the records",
    )


def ends_too_soon(scope: str, for_s: float) -> StoreError:
    return StoreError(
        f"the lease of {named(scope)} ends before a call that may take {for_s:g} s",
        help="nothing was sent; run again to continue from the records",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All that is known, as of one moment; or all of some scopes (`Store.load`).

    `lineage` names this state for its whole life; it is "" while there is no state (`Store.create`).
    `open_intents`: intents whose outcome is not known, oldest first.
    `plans_run`: ids of plans that an apply has started, in any scope, and of the approvals that it used.
    `spooled`: scopes with spooled outcomes, which this state already shows (`Spooling`).
    `unclaimed`: entries whose data names an object (`unclaimed`) that a call of ours made, and that no
    record tracks, because its outcome arrived after the call had been settled differently.
    `elsewhere`: the ids of the records in scopes that were not asked for.
    `serials`: by scope, the highest serial that a record of it ever had.
    `heads`: by scope, the hash of its newest journal entry (`state.chain`); `lengths`: how many there are.
    `platform`: the address of the platform that this state is about; "" while none was recorded.
    `version`: two states of one store with the same version are equal.
    `traces`: files that show that there was a state, where there is none.
    `remembered`: by name, what is about no object and later runs want to know (`execution.decisions`).
    Each is kept as a record of the kind REMEMBERED in the scope WHOLE_STATE, which no longer stands in
    `records`; a state of some scopes only may lack them.
    """

    lineage: str
    records: Mapping[Address, StateRecord]
    open_intents: tuple[JournalEntry, ...]
    plans_run: frozenset[str]
    spooled: frozenset[str] = frozenset()
    unclaimed: tuple[JournalEntry, ...] = ()
    elsewhere: Mapping[Address, str] = dataclasses.field(default_factory=dict)
    serials: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    heads: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    lengths: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    version: str = dataclasses.field(default="", compare=False)
    platform: str = ""
    remembered: Mapping[str, StateRecord] = dataclasses.field(default_factory=dict)
    traces: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.serials.get(WHOLE_STATE):
            return  # no record was ever of that scope: a hundred thousand others need no look
        found = {key.name: record for key, record in self.records.items() if key.kind == REMEMBERED}
        if found:
            objects = {key: record for key, record in self.records.items() if key.kind != REMEMBERED}
            object.__setattr__(self, "records", objects)
            object.__setattr__(self, "remembered", found)

    @property
    def ids(self) -> Mapping[Address, str]:
        """The ids of all records of all scopes."""
        return {**self.elsewhere, **{address: record.id for address, record in self.records.items()}}

    def of(self, scopes: Collection[str] | None) -> "State":
        """What of this state is about `scopes` (None: all of it). An entry without a scope is about each."""
        if scopes is None:
            return self
        return dataclasses.replace(
            self,
            records={record.address: record for record in self.records.values() if record.scope in scopes},
            open_intents=_about(scopes, self.open_intents),
            spooled=self.spooled.intersection(scopes),
            unclaimed=_about(scopes, self.unclaimed),
            elsewhere={
                **self.elsewhere,
                **{
                    record.address: record.id
                    for record in self.records.values()
                    if record.scope not in scopes
                },
            },
        )


def _about(scopes: Collection[str], entries: Iterable[JournalEntry]) -> tuple[JournalEntry, ...]:
    return tuple(entry for entry in entries if entry.data.get("scope", "") in {"", *scopes})


class Restored(Struct, frozen=True):
    """What a restore did. `backup`: the file it began from, made at `taken_at`; `aside`: what the file is
    called now that it replaced, "" where there was none.

    `salvaged`: journal rows, newer than the backup, that were read from the damaged file. `reopened`:
    addresses whose newest calls have no readable record, so that evidence or a person settles them again.
    `lost`: which rows could not be read, and from when to when; "" for none. `key`: what became of the
    fingerprint key; after "new", every secret is set again.
    """

    backup: str
    taken_at: datetime | None
    aside: str
    salvaged: int
    reopened: tuple[Address, ...]
    lost: str
    key: Literal["kept", "restored", "new"]


class Backups(Struct, frozen=True):
    """`newest`: when the newest good one was made; None: there is none. `bad`: those that are newer."""

    newest: datetime | None
    bad: tuple[Path, ...]


LOST_ROWS = "lost-rows"  # stands in `State.unclaimed` for whatever a restore could not read


class Store:
    """Every method raises StoreError when the backend cannot answer or holds damaged data.

    A wrapper passes every call on to `inner`: subclasses say what is different. The state itself is kept by
    `LogStore`, which has all of them.
    """

    def __init__(self, inner: "Store") -> None:
        self.inner = inner

    async def load(self, scopes: Collection[str] | None = None) -> State:
        """What is known of `scopes`, or all of it. Costs next to nothing while nothing has changed."""
        return await self.inner.load(scopes)

    async def journal(self, *, since: datetime | None = None) -> Sequence[tuple[str, JournalEntry]]:
        """All entries, each with its scope, oldest first: those of one scope in the order of its commits.

        `since`: only those of runs that did something at that time or later, with all that these runs did
        before; of entries without a run, those of that time or later. Where scopes keep no common order,
        their entries stand by their time. Reads much, and is for people.
        """
        return await self.inner.journal(since=since)

    async def create(self) -> bool:
        """Make the state, with its lineage and key; False, and nothing is changed, where there is one.

        Nothing else makes one. Raises StoreError where traces of an older state are visible.
        """
        return await self.inner.create()

    async def fingerprint_key(self) -> bytes:
        """32 random bytes kept beside the state, for keyed fingerprints of secret values.

        While there is no state: bytes that are forgotten with this handle.
        """
        return await self.inner.fingerprint_key()

    async def lease(self, scopes: Sequence[str], holder: str, *, timeout_s: float = 0) -> Lease:
        """Take all scopes or none. Raises Locked naming the first one held, after waiting `timeout_s`.

        Raises StoreError when there is no state.
        """
        return await self.inner.lease(scopes, holder, timeout_s=timeout_s)

    async def holders(self, scopes: Collection[str]) -> Mapping[str, Locked]:
        """By scope, who has it: of `scopes`, those that a holder has which lives, or may live (`rest_s`).

        Takes nothing, and waits for nothing.
        """
        return await self.inner.holders(scopes)

    async def check(self, lease: Lease, for_s: float = 0) -> None:
        """Raises StoreError unless `lease` is the current one of each of its scopes, and outlives `for_s`."""
        await self.inner.check(lease, for_s)

    async def release(self, lease: Lease) -> None:
        """Give the scopes back. Does nothing for one that was released or taken over before."""
        await self.inner.release(lease)

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        """Append `entries`, store `put` and drop `remove`, durably and all or nothing: all of one scope.

        `lease` is that of this scope alone (`Lease.of`), so that no store has to change two at once.
        A put record's `serial` is the one it must replace (0: there must be none); the records
        come back with their new serials: the next ones of their scope (`State.serials`), whatever happens in
        other scopes. A removed address may have no record. An address that is both removed and put is put
        last, with serial 0.
        Raises StoreError, and stores nothing, when the lease is not current or a put, replaced or removed
        record is of another scope, when a serial has moved, or when an INTENT's attempt is open already;
        TypeError or ValueError for data that is not JSON or a lease of several scopes.
        """
        return await self.inner.commit(lease, entries, put, remove)

    async def close(self) -> None:
        """Let go of everything. A lease that was not released counts as left by a dead holder."""
        await self.inner.close()
