"""The only writer of journal and records during an apply: an outcome lands with what it means."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from reconciler.clock import Clock
from reconciler.execution.intents import Intent
from reconciler.model import Action, Address, Obligation, Owed, StateRecord, owed_work
from reconciler.state.store import Event, JournalEntry, Lease, Store
from reconciler.steps import Binding, Plan, Step

# When others made an adopted object does not matter: it was there when we took it.
LONG_AGO = datetime.fromtimestamp(0, UTC)


class Recorder:
    """Holds the records of this run as they stand after each commit."""

    def __init__(
        self, store: Store, lease: Lease, run: str, clock: Clock, records: Mapping[Address, StateRecord]
    ) -> None:
        self._store = store
        self._lease = lease
        self._run = run
        self._clock = clock
        self.records = dict(records)

    def tracked_ids(self) -> set[str]:
        return {record.id for record in self.records.values()}

    async def start(self, plan: Plan) -> None:
        """The run begins: what needs no call (adoptions, changed lifecycles, forgetting) is recorded."""
        put = [record for record in map(self._bound, plan.bindings) if record is not None]
        gone = [change.address for change in plan.changes if change.action is Action.FORGET]
        await self._commit([self._entry(Event.RUN_STARTED, data={"plan": plan.id})], put, gone)

    def _bound(self, binding: Binding) -> StateRecord | None:
        record = self.records.get(binding.address)
        if record is not None:
            applied = {**record.applied, **binding.applied}
            return replace(record, lifecycle=binding.lifecycle, source=binding.source, applied=applied)
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

    def owed(self) -> tuple[Owed, ...]:
        return owed_work(self.records)

    async def finish(self) -> None:
        await self._commit([self._entry(Event.RUN_FINISHED)])

    async def intent(self, step: Step, attempt: int, intent: Intent) -> None:
        entry = self._entry(Event.INTENT, step, attempt, intent.to_json())
        await self._commit([entry])

    async def check_lease(self) -> None:
        await self._store.check(self._lease)

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
        if step.removes:
            await self._commit([entry], remove=[step.address] if record is not None else [])
            return
        if record is None:
            record = intent.record(step.address, id or step.known_id, self._clock.now(), inferred=inferred)
        if owed is not None:
            record = _owing(record, owed)
        await self._commit([entry], [replace(record, applied={**record.applied, **applied})])

    async def failed(self, step: Step, attempt: int, message: str, status: int) -> None:
        await self._commit([self._entry(Event.FAILED, step, attempt, {"error": message, "status": status})])

    async def unknown(self, step: Step, attempt: int, message: str, owed: Obligation | None) -> None:
        entry = self._entry(Event.UNKNOWN, step, attempt, {"error": message})
        record = self.records.get(step.address)
        put = []
        if owed is not None and record is not None:
            put = [_owing(record, owed)]
        await self._commit([entry], put)

    async def not_landed(self, step: Step, attempt: int) -> None:
        await self._commit([self._entry(Event.SETTLED, step, attempt, {"landed": False})])

    async def pending(self, step: Step, seen: str) -> None:
        await self._commit([self._entry(Event.PENDING, step, data={"seen": seen})])

    async def settle(
        self, opened: JournalEntry, data: Mapping[str, Any], put: Sequence[StateRecord] = ()
    ) -> None:
        """Close an earlier run's intent with what evidence or a person says."""
        entry = replace(opened, event=Event.SETTLED, at=self._clock.now(), data=data)
        await self._commit([entry], put)

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

    async def _commit(
        self,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> None:
        for record in await self._store.commit(self._lease, entries, put, remove):
            self.records[record.address] = record
        for address in remove:
            self.records.pop(address, None)


def _owing(record: StateRecord, owed: Obligation) -> StateRecord:
    """`record` with `owed`. Of two obligations for the same reason, only the more certain one stays."""
    others = [each for each in record.obligations if (each.work, each.because) != (owed.work, owed.because)]
    same = [each for each in record.obligations if each not in others and each.certainty == "owed"]
    return replace(record, obligations=(*others, *(same or [owed])))
