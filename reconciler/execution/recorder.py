"""The only writer of journal and records during an apply: an outcome and its effect are one commit."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import anyio
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.context import UNATTRIBUTED, Attribution
from reconciler.core.errors import StoreError
from reconciler.core.model import (
    BAD_ANSWER,
    LONG_AGO,
    Action,
    Address,
    Impact,
    Obligation,
    Observation,
    Owed,
    StateRecord,
    owed_work,
    owing,
)
from reconciler.core.steps import Binding, Plan, Read, Result, Step
from reconciler.execution.intents import Intent
from reconciler.execution.observed import observed_data
from reconciler.execution.parts import Parts, moved_entry
from reconciler.kinds import find_kinds
from reconciler.moves.compare import only_left
from reconciler.moves.records import moved_records
from reconciler.planning.digest import plan_digest
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, JournalEntry, Lease, Run

Settled = Mapping[Address, Collection[Obligation]]


def bound(binding: Binding, record: StateRecord | None) -> StateRecord | None:
    """`record` with `binding` applied; None if there is neither a record nor an object to record."""
    if record is not None:
        return replace(
            record,
            lifecycle=binding.lifecycle,
            source=binding.source,
            applied={**record.applied, **binding.applied},
            obligations=() if binding.settles else record.obligations,
            inferred=record.inferred and not binding.confirms,
        )
    if binding.id is None:
        return None
    return StateRecord(
        binding.address,
        binding.id,
        binding.scope,
        binding.applied,
        binding.lifecycle,
        LONG_AGO,
        binding.source,
    )


class OutcomeNotStored(StoreError):
    """A call was sent, but its outcome could not be stored. `kept`: it is spooled for the next run."""

    def __init__(self, message: str, *, kept: bool) -> None:
        super().__init__(message)
        self.kept = kept


class Recorder:
    """The journal of this run, and its records as of the newest commit.

    `done`, `failed` and `unknown` record the outcome of a call that was sent. If the store does not accept
    it, they spool it (`Spooling.spool`) and raise OutcomeNotStored. Methods for the time before a call raise
    StoreError. `restarts`: by machine, the obligations that its restart settles. `has_unstored_outcome`: the
    store did not accept an outcome.
    """

    def __init__(
        self,
        store: Spooling,
        lease: Lease,
        run: str,
        clock: Clock,
        records: Mapping[Address, StateRecord],
        *,
        by: Attribution = UNATTRIBUTED,
    ) -> None:
        self._store = store
        self._lease = lease
        self.holder = lease.holder
        self._run = run
        self._clock = clock
        self._by = by
        self._intended: dict[Address, str] = {}  # the scopes of addresses that have no record yet
        self._storing: set[anyio.Event] = set()  # outcomes that are being stored; set when that has ended
        self._writing: Counter[Address] = Counter()  # records that a commit under way replaces
        self.restarts: dict[str, Settled] = {}
        self.has_unstored_outcome = False
        self.records = dict(records)
        self._ids = Counter(record.id for record in records.values())

    def tracked_ids(self) -> Collection[str]:
        """The ids of all records: a live view, because every create needs it."""
        return self._ids.keys()

    def owing(self, address: Address) -> Sequence[StateRecord]:
        """The records of the scope of `address` that owe a restart."""
        scope = self._lease_of(address).scope
        return [record for record in self.records.values() if record.obligations and record.scope == scope]

    def add_restart(self, machine: str, found: Settled) -> None:
        """The restart of `machine` settles the obligations `found`, without those of another restart."""
        others = [pair for settled in self.restarts.values() for pair in settled.items()]
        taken = {(address, owed) for address, obligations in others for owed in obligations}
        left = {
            address: [owed for owed in obligations if (address, owed) not in taken]
            for address, obligations in found.items()
        }
        self.restarts[machine] = {
            address: obligations for address, obligations in left.items() if obligations
        }

    async def start(
        self,
        plan: Plan,
        observed: Mapping[Read, Observation] = MappingProxyType({}),
        approvals: Sequence[Mapping[str, str]] = (),
        digest: str = "",
    ) -> None:
        """Start the run in all of its scopes, with the changes that need no call: moves, adopting,
        forgetting.

        A plan counts as run as soon as it has started in one scope. `observed`: the answers that it relies
        on, kept in the first scope together with the records at the start. `approvals`: the approvals that it
        uses, in all of its scopes. `digest`: of the plan that was reviewed, if that is another one.
        """
        run = Run(
            plan.id,
            str(plan.manifests.digest),
            digest or plan_digest(plan),
            actor=self._by.actor,
            url=self._by.url,
            reason=self._by.reason,
            revision=plan.context.revision or "",
            dirty=plan.context.dirty,
            environment=plan.context.environment,
        )
        actions = (action for change in plan.changes for action in change.actions)
        counts = Counter(action.value for action in actions if action.changes_something)
        noted = self._without_calls(plan)
        used: dict[str, Any] = {"approvals": list(approvals)} if approvals else {}
        lost = [change for change in plan.changes if change.impact is Impact.DATA_LOSS]
        losses = {str(change.address): change.reason for change in lost}
        used |= {"losses": losses} if losses else {}
        parts = self._in_every_scope(
            Event.RUN_STARTED,
            lambda scope: {**run.to_json(), "changes": counts, **noted.get(scope, {}), **used},
        )
        if observed or plan.steps:
            about = {change.address for change in plan.changes} | {step.address for step in plan.steps}
            # A binding without an expectation was not read again, so no replay could show it.
            about |= {bound.address for bound in plan.bindings} & {item.address for item in plan.expectations}
            known = {*about, *(Address.parse(source) for source, _ in plan.inputs)}
            before = [record for address, record in self.records.items() if address in known]
            seen = self._entry(Event.RUN_OBSERVED, data=observed_data(observed, before, about))
            parts.of(self._lease.scopes[0]).entries.append(seen)
        put = moved_records(find_kinds(), plan.moves, self.records)
        for move in plan.moves:
            entry = moved_entry(move, self._run, self._clock.now())
            parts.move(put[move.target].scope, entry, move.source)
        gone = [move.source for move in plan.moves]
        self._replace(put.values())
        for binding in plan.bindings:
            # An address that has left the manifests in another scope does not concern this run.
            concerns_us = binding.scope in self._lease.epochs or not only_left(binding)
            if concerns_us and (record := bound(binding, self.records.get(binding.address))) is not None:
                put[record.address] = record
        for record in put.values():
            parts.of(record.scope).put.append(record)
        for change in plan.changes:
            if change.action is Action.FORGET and change.address in self.records:
                parts.of(self.records[change.address].scope).remove.append(change.address)
                gone.append(change.address)
        self._keep(await parts.commit(self._store, self._lease), gone)

    def _without_calls(self, plan: Plan) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """By scope, the addresses that are adopted, forgotten or confirmed without a call of their own."""
        noted: dict[str, dict[str, list[str]]] = {}
        scopes = {binding.address: binding.scope for binding in plan.bindings}
        scopes |= {address: record.scope for address, record in self.records.items()}
        for change in plan.changes:
            for action, name in ((Action.ADOPT, "adopted"), (Action.FORGET, "forgotten")):
                if action in change.actions and change.address in scopes:
                    of_scope = noted.setdefault(scopes[change.address], {})
                    of_scope.setdefault(name, []).append(str(change.address))
        for binding in plan.bindings:
            if binding.confirms:
                noted.setdefault(binding.scope, {}).setdefault("confirmed", []).append(str(binding.address))
        return noted

    def _in_every_scope(self, event: Event, data: Callable[[str], Mapping[str, Any]]) -> Parts:
        """One entry for every scope of the run, with the data for that scope."""
        parts = Parts(self._lease.scopes)
        for scope in self._lease.scopes:
            parts.of(scope).entries.append(self._entry(event, data=data(scope)))
        return parts

    def owed(self) -> tuple[Owed, ...]:
        """The work that the records owe now."""
        return owed_work(self.records)

    async def finish(self, results: Sequence[Result] = (), *, interrupted: bool = False) -> None:
        """End the run in all of its scopes, with the outcomes of its steps, and the work that is owed."""
        ended: dict[str, Any] = {"outcomes": Counter(result.outcome for result in results)}
        ended |= {"interrupted": True} if interrupted else {}
        owed: dict[str, list[dict[str, str]]] = {}
        for work in self.owed():
            owed.setdefault(self.records[work.address].scope, []).append(work.to_json())
        parts = self._in_every_scope(
            Event.RUN_FINISHED,
            lambda scope: {**ended, "owed": owed[scope]} if scope in owed else ended,
        )
        await parts.commit(self._store, self._lease)

    async def intent(self, step: Step, attempt: int, intent: Intent) -> None:
        """Store an intent, and wait until earlier outcomes are stored, too, or cannot be."""
        self._intended[step.address] = intent.scope
        before = tuple(self._storing)
        if intent.if_unknown == "ask":  # else a death in between asks a person about a call that was not sent
            await _ended(before)
        await self._commit(self._entry(Event.INTENT, step, attempt, intent.to_json()))
        await _ended(before)

    async def check_lease(self, step: Step, for_s: float) -> None:
        """Raises StoreError unless the lease of the step's scope is ours while its call may take `for_s`.

        Only that scope is checked, whose intent was just stored: a run may have hundreds of others.
        """
        await self._store.check(self._lease_of(step.address), for_s)

    async def done(
        self,
        step: Step,
        attempt: int,
        intent: Intent,
        *,
        id: str | None,
        applied: Mapping[str, Any],
        owed: Obligation | None = None,
        inferred: bool = False,
    ) -> None:
        """Record a success: the outcome and the new record are one commit."""
        event = Event.SETTLED if inferred else Event.DONE
        entry = self._entry(event, step, attempt, {"id": id} if id is not None else {})
        record = self.records.get(step.address)
        if step.effect.removes:
            await self._outcome(entry, remove=[step.address] if record is not None else [])
            return
        if record is None:
            known_id = step.effect.known_id
            found = inferred and not known_id  # a known id needs no evidence
            record = intent.record(step.address, id or known_id, self._clock.now(), inferred=found)
        elif id and id != record.id:
            if intent.creates and intent.if_unknown != "repeat":
                # A new object in the place of a destroyed one: the old fields are not valid any more.
                made = intent.record(step.address, id, self._clock.now(), inferred=inferred)
                record = replace(made, serial=record.serial)
            else:
                record = replace(record, id=id)  # after a repeated POST, the object has another id
        if owed is not None:
            record = owing(record, owed)
        known = {name: value for name, value in record.applied.items() if name != BAD_ANSWER}
        put = [replace(record, applied={**known, **applied})]
        if step.if_owed is not None and step.if_owed.settles:
            put = self._settled(put[0], self.restarts[step.if_owed.machine])
        await self._outcome(entry, put)

    def _settled(self, record: StateRecord, settled: Settled) -> list[StateRecord]:
        """`record` and the records of `settled`, without the obligations that they had when the restart
        began.

        A record that another task is storing keeps its obligations: a restart too many loses nothing.
        """
        after = {
            address: self.records[address]
            for address in settled
            if address in self.records and not self._writing[address]
        }
        after[record.address] = record
        for address in after.keys() & settled.keys():
            left = [owed for owed in after[address].obligations if owed not in settled[address]]
            after[address] = replace(after[address], obligations=tuple(left))
        return list(after.values())

    async def failed(self, step: Step, attempt: int, message: str, status: int) -> None:
        """Record that the call had no effect."""
        await self._outcome(self._entry(Event.FAILED, step, attempt, {"error": message, "status": status}))

    async def unknown(
        self,
        step: Step,
        attempt: int,
        intent: Intent,
        message: str,
        owed: Obligation | None,
        *,
        status: int = 0,
        bad_id: bool = False,
    ) -> None:
        """Record that the outcome is unknown.

        `status`: 0 if no answer came. `bad_id`: see `Outcome`; then a person must decide.
        """
        entry = self._entry(Event.UNKNOWN, step, attempt, {"error": message, "status": status})
        record = self.records.get(step.address)
        doubted = intent.in_doubt(step.address, record, self._clock.now())
        if doubted is not None and bad_id:
            doubted = replace(doubted, applied={**doubted.applied, BAD_ANSWER: True})
        if doubted is not None and owed is not None:
            doubted = owing(doubted, owed)
        try:
            async with self._as_outcome():
                await self._commit(entry, [doubted] if doubted is not None and doubted != record else [])
        except StoreError as failure:
            # There is nothing to spool: the intent that stays open says the same.
            raise OutcomeNotStored(failure.message, kept=False) from failure

    async def not_landed(self, step: Step, attempt: int) -> None:
        """Record that a lost call had no effect."""
        await self._commit(self._entry(Event.SETTLED, step, attempt, {"landed": False}))

    async def reached(self, step: Step, applied: Mapping[str, Any]) -> None:
        """Record that the wait of the step ended well, or that all of its calls are done."""
        record = self.records.get(step.address)
        if record is None:
            return
        put = [replace(record, applied={**record.applied, **applied})]
        await self._commit(self._entry(Event.DONE, step, data={"reached": True}), put)

    async def pending(self, step: Step, seen: str, *, timed_out: bool) -> None:
        """Record that the wait of the step has not ended yet.

        If this run only waited, for its whole time, the record no longer says that the change is coming:
        somebody may have undone it, and the next run sends the call again.
        """
        record = self.records.get(step.address)
        coming = step.wait.applied if step.wait is not None and timed_out and not step.mutates else {}
        put = []
        if record is not None and coming:
            kept = {name: value for name, value in record.applied.items() if name not in coming}
            put = [replace(record, applied=kept)]
        await self._commit(self._entry(Event.PENDING, step, data={"seen": seen}), put)

    async def settle(
        self, opened: JournalEntry, data: Mapping[str, Any], put: Sequence[StateRecord] = ()
    ) -> None:
        """Close an earlier run's intent by evidence, or by a person's decision."""
        assert opened.address is not None
        self._intended[opened.address] = opened.data["scope"]
        await self._commit(replace(opened, event=Event.SETTLED, at=self._clock.now(), data=data), put)

    def _entry(
        self,
        event: Event,
        step: Step | None = None,
        attempt: int = 1,
        data: Mapping[str, Any] | None = None,
    ) -> JournalEntry:
        """A journal entry of this run, at this moment."""
        return JournalEntry(
            self._run,
            event,
            self._clock.now(),
            step.address if step is not None else None,
            step.id if step is not None else "",
            attempt,
            data or {},
        )

    async def _outcome(
        self,
        entry: JournalEntry,
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> None:
        """Commit an outcome, or spool it: it must not be lost, because its call cannot be undone."""
        try:
            async with self._as_outcome():
                await self._commit(entry, put, remove)
        except StoreError as failure:
            try:
                place = await self._store.spool(self._lease_for(entry), [entry], put, remove)
            except StoreError as another:
                message = (
                    f"{failure.message}; it could not be written anywhere else, either: {another.message}"
                )
                raise OutcomeNotStored(message, kept=False) from failure
            message = f"{failure.message}; it was written to {place}: the next run reads it from there"
            raise OutcomeNotStored(message, kept=True) from failure

    @asynccontextmanager
    async def _as_outcome(self) -> AsyncIterator[None]:
        """A block that stores an outcome; an intent that is stored meanwhile waits for its end."""
        ended = anyio.Event()
        self._storing.add(ended)
        try:
            yield
        except StoreError:
            self.has_unstored_outcome = True
            raise
        finally:
            self._storing.remove(ended)
            ended.set()

    async def _commit(
        self, entry: JournalEntry, put: Sequence[StateRecord] = (), remove: Sequence[Address] = ()
    ) -> None:
        """Commit an entry with its records, and keep the records as stored."""
        writing = [record.address for record in put]
        self._writing.update(writing)
        try:
            self._keep(await self._store.commit(self._lease_for(entry), [entry], put, remove), remove)
        finally:
            self._writing.subtract(writing)

    def _lease_for(self, entry: JournalEntry) -> Lease:
        """The lease of the entry's scope: the scope of its record, or else of its intent."""
        assert entry.address is not None
        return self._lease_of(entry.address)

    def _lease_of(self, address: Address) -> Lease:
        """The lease of the scope of `address`; of the first scope if neither record nor intent names one."""
        record = self.records.get(address)
        scope = record.scope if record is not None else self._intended.get(address)
        return self._lease.of(scope if scope is not None else self._lease.scopes[0])

    def _keep(self, stored: Iterable[StateRecord], removed: Iterable[Address]) -> None:
        """Take over the result of a commit."""
        for address in removed:
            self._untrack(self.records.pop(address, None))
        self._replace(stored)

    def _replace(self, records: Iterable[StateRecord]) -> None:
        """Put `records` in the place of older ones."""
        for record in records:
            self._untrack(self.records.get(record.address))
            self.records[record.address] = record
            self._ids[record.id] += 1

    def _untrack(self, record: StateRecord | None) -> None:
        """Note that `record` is removed or replaced."""
        if record is not None:
            self._ids[record.id] -= 1
            if not self._ids[record.id]:
                del self._ids[record.id]


async def _ended(storing: Iterable[anyio.Event]) -> None:
    for ended in storing:
        await ended.wait()
