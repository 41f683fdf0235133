"""The only writer of journal and records during an apply: an outcome is stored together with its effect."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import anyio
from msgspec.structs import replace

from reconciler.core.attribution import UNATTRIBUTED, Attribution
from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.model import (
    BAD_ANSWER,
    LONG_AGO,
    Action,
    Address,
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

Served = Mapping[Address, Collection[Obligation]]


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


class Unrecorded(StoreError):
    """A call was sent, but its outcome could not be stored. `kept`: it is spooled for the next run."""

    def __init__(self, message: str, *, kept: bool) -> None:
        super().__init__(message)
        self.kept = kept


class Recorder:
    """Holds the records of this run as they stand after each commit. `unrecorded`: an outcome is not stored.

    `done`, `failed` and `unknown` record the outcome of a call that was sent. Where the store does not take
    it, they spool it (`Spooling.spool`) and raise Unrecorded. What comes before a call raises StoreError.
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
        self._intended: dict[Address, str] = {}  # the scopes of what has no record yet
        self._storing: set[anyio.Event] = set()  # outcomes; each event says that one is stored, or cannot be
        self._writing: Counter[Address] = Counter()  # records that a commit under way replaces
        self.served: dict[str, Served] = {}  # by machine, what its restart settles
        self.unrecorded = False
        self.records = dict(records)
        self._ids = Counter(record.id for record in records.values())

    def tracked_ids(self) -> Collection[str]:
        """Those of the records as they stand, also later: each create asks for them."""
        return self._ids.keys()

    def owing(self, address: Address) -> Sequence[StateRecord]:
        """The records of the scope of `address` that owe a restart."""
        scope = self._lease_of(address).scope
        return [each for each in self.records.values() if each.obligations and each.scope == scope]

    def serve(self, machine: str, found: Served) -> None:
        """The restart of `machine` settles what was `found`, but for what another one settles already."""
        others = [pair for each in self.served.values() for pair in each.items()]
        taken = {(address, owed) for address, obligations in others for owed in obligations}
        left = {
            address: [owed for owed in obligations if (address, owed) not in taken]
            for address, obligations in found.items()
        }
        self.served[machine] = {address: obligations for address, obligations in left.items() if obligations}

    async def start(
        self,
        plan: Plan,
        observed: Mapping[Read, Observation] = MappingProxyType({}),
        approvals: Sequence[Mapping[str, str]] = (),
        digest: str = "",
    ) -> None:
        """The run begins in each of its scopes, with all that needs no call: moves, adoptions, forgetting.

        A plan counts as run as soon as it has started in one of them. `observed`: what it relies on, kept in
        the first scope with the records that it began with. `approvals`: those that it uses, each whole:
        they are used in each of its scopes. `digest`: of the plan that was reviewed, if it is another one.
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
        used = {"approvals": list(approvals)} if approvals else {}
        parts = self._in_every_scope(
            Event.RUN_STARTED,
            lambda scope: {**run.to_json(), "changes": counts, **noted.get(scope, {}), **used},
        )
        if observed or plan.steps:
            about = {each.address for each in plan.changes} | {each.address for each in plan.steps}
            # What is only learnt is not read again: no replay could show it.
            about |= {each.address for each in plan.bindings} & {each.address for each in plan.expectations}
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
        # What has left the manifests in other scopes is not this run's business.
        ours = [each for each in plan.bindings if each.scope in self._lease.epochs or not only_left(each)]
        records = [bound(each, self.records.get(each.address)) for each in ours]
        put |= {each.address: each for each in records if each is not None}
        for record in put.values():
            parts.of(record.scope).put.append(record)
        for change in plan.changes:
            if change.action is Action.FORGET and change.address in self.records:
                parts.of(self.records[change.address].scope).remove.append(change.address)
                gone.append(change.address)
        self._keep(await parts.commit(self._store, self._lease), gone)

    def _without_calls(self, plan: Plan) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """By scope, the addresses whose records come, go, or are confirmed without a call of their own."""
        noted: dict[str, dict[str, list[str]]] = {}
        scopes = {each.address: each.scope for each in plan.bindings}
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
        parts = Parts(self._lease.scopes)
        for scope in self._lease.scopes:
            parts.of(scope).entries.append(self._entry(event, data=data(scope)))
        return parts

    def owed(self) -> tuple[Owed, ...]:
        return owed_work(self.records)

    async def finish(self, results: Sequence[Result] = (), *, interrupted: bool = False) -> None:
        """The run ends in each of its scopes, with how its steps ended, and what is owed there."""
        said: dict[str, Any] = {"outcomes": Counter(result.outcome for result in results)}
        said |= {"interrupted": True} if interrupted else {}
        owed: dict[str, list[dict[str, str]]] = {}
        for each in self.owed():
            owed.setdefault(self.records[each.address].scope, []).append(each.to_json())
        parts = self._in_every_scope(
            Event.RUN_FINISHED,
            lambda scope: {**said, "owed": owed[scope]} if scope in owed else said,
        )
        await parts.commit(self._store, self._lease)

    async def intent(self, step: Step, attempt: int, intent: Intent) -> None:
        """Stored once this returns, and so are the outcomes before it, unless one is `unrecorded`."""
        self._intended[step.address] = intent.scope
        before = tuple(self._storing)
        if intent.if_unknown == "ask":  # a death in between would ask a person about what was not sent
            await _ended(before)
        await self._commit(self._entry(Event.INTENT, step, attempt, intent.to_json()))
        await _ended(before)

    async def check_lease(self, step: Step, for_s: float) -> None:
        """Raises StoreError unless the lease is ours for as long as the call of `step` may take.

        That of its own scope, whose intent was just stored: a run may have hundreds of others.
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
        """The call succeeded: its outcome and what the record then holds are one commit."""
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
                # A new object in the place of a destroyed one: none of the old fields are valid.
                made = intent.record(step.address, id, self._clock.now(), inferred=inferred)
                record = replace(made, serial=record.serial)
            else:
                record = replace(record, id=id)  # after a repeated POST, the object has another id
        if owed is not None:
            record = owing(record, owed)
        known = {name: value for name, value in record.applied.items() if name != BAD_ANSWER}
        put = [replace(record, applied={**known, **applied})]
        if step.if_owed is not None and step.if_owed.settles:
            put = self._settled(put[0], self.served[step.if_owed.machine])
        await self._outcome(entry, put)

    def _settled(self, record: StateRecord, served: Served) -> list[StateRecord]:
        """`record` and the others of `served`, without what they owed when the restart began.

        One that another task is storing goes on owing: one restart too many loses nothing.
        """
        free = [self.records[each] for each in served if each in self.records and not self._writing[each]]
        after = {each.address: each for each in (*free, record)}
        for address in after.keys() & served.keys():
            left = [owed for owed in after[address].obligations if owed not in served[address]]
            after[address] = replace(after[address], obligations=tuple(left))
        return list(after.values())

    async def failed(self, step: Step, attempt: int, message: str, status: int) -> None:
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
        """`status`: 0 where no answer came. `bad_id`: see `Outcome`; a person decides then."""
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
            # Nothing to spool: the open intent already says that.
            raise Unrecorded(failure.message, kept=False) from failure

    async def not_landed(self, step: Step, attempt: int) -> None:
        await self._commit(self._entry(Event.SETTLED, step, attempt, {"landed": False}))

    async def reached(self, step: Step, applied: Mapping[str, Any]) -> None:
        """The wait of the step ended well, or all of its calls are done: record that."""
        record = self.records.get(step.address)
        if record is None:
            return
        put = [replace(record, applied={**record.applied, **applied})]
        await self._commit(self._entry(Event.DONE, step, data={"reached": True}), put)

    async def pending(self, step: Step, seen: str, *, timed_out: bool) -> None:
        """The wait of the step has not ended yet.

        Once a run that did nothing but wait has waited its whole time, the record no longer says that it is
        coming: somebody may have undone it, and the next run makes the call again.
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
        """Close an earlier run's intent with what evidence or a person says."""
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
        """Commit an outcome that must not be lost, because its call cannot be undone."""
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
                raise Unrecorded(message, kept=False) from failure
            message = f"{failure.message}; it was written to {place}: the next run reads it from there"
            raise Unrecorded(message, kept=True) from failure

    @asynccontextmanager
    async def _as_outcome(self) -> AsyncIterator[None]:
        """An intent that is stored meanwhile waits for the end of the block (`intent`)."""
        ended = anyio.Event()
        self._storing.add(ended)
        try:
            yield
        except StoreError:
            self.unrecorded = True
            raise
        finally:
            self._storing.remove(ended)
            ended.set()

    async def _commit(
        self, entry: JournalEntry, put: Sequence[StateRecord] = (), remove: Sequence[Address] = ()
    ) -> None:
        writing = [record.address for record in put]
        self._writing.update(writing)
        try:
            self._keep(await self._store.commit(self._lease_for(entry), [entry], put, remove), remove)
        finally:
            self._writing.subtract(writing)

    def _lease_for(self, entry: JournalEntry) -> Lease:
        """The lease of the scope that `entry` belongs to: its record's, or else its intent's."""
        assert entry.address is not None
        return self._lease_of(entry.address)

    def _lease_of(self, address: Address) -> Lease:
        record = self.records.get(address)
        scope = record.scope if record is not None else self._intended.get(address)
        return self._lease.of(scope if scope is not None else self._lease.scopes[0])

    def _keep(self, stored: Iterable[StateRecord], removed: Iterable[Address]) -> None:
        for address in removed:
            self._untrack(self.records.pop(address, None))
        self._replace(stored)

    def _replace(self, records: Iterable[StateRecord]) -> None:
        for record in records:
            self._untrack(self.records.get(record.address))
            self.records[record.address] = record
            self._ids[record.id] += 1

    def _untrack(self, record: StateRecord | None) -> None:
        """`record` goes, or another one takes its place."""
        if record is not None:
            self._ids[record.id] -= 1
            if not self._ids[record.id]:
                del self._ids[record.id]


async def _ended(storing: Iterable[anyio.Event]) -> None:
    for each in storing:
        await each.wait()
