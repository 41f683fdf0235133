"""What a person decides: lost calls, restarts that were owed, records to forget."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.errors import PlatformError, ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import PLATFORM, Move, Read
from reconciler.execution.intents import Intent
from reconciler.execution.leasing import leased
from reconciler.execution.open_intents import parse_intent
from reconciler.execution.parts import Parts
from reconciler.execution.recorder import Recorder
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import located, service_of
from reconciler.manifests.validation.references import nearest_address
from reconciler.moves.carry_out import moved_entry, moved_records
from reconciler.pipeline.project import Project
from reconciler.pipeline.unrecorded import not_recorded
from reconciler.policies.moved import next_address
from reconciler.state.store import WHOLE_STATE, Event, JournalEntry, Lease, State, Store


async def resolve_unknown(project: Project, address: Address, *, adopt: str | None) -> str:
    """Close the open call of `address`: it made `adopt`, or (None) nothing. Also confirms an inferred id."""
    opened, record = _question(await project.store.load(), address, adopt)
    scope = parse_intent(opened).scope if opened is not None else _scope(record)
    async with _leased(project, scope) as lease:
        state = await project.store.load()
        opened, record = _question(state, address, adopt)
        if opened is None:
            return await _confirm(project, lease, record, adopt)
        intent = parse_intent(opened)
        recorder = Recorder(project.store, lease, opened.run, project.clock, state.records)
        if adopt is None:
            await recorder.settle(opened, {"landed": False, "by": project.holder})
            return "recorded as not created; the next apply may create it"
        await _must_be_possible(project, state, opened, intent, adopt)
        made = intent.settled_record(address, record, adopt, opened.at)
        put = [replace(made, inferred=False)] if made is not None else []
        await recorder.settle(opened, {"id": adopt, "by": project.holder}, put)
        return f"recorded as {adopt}"


def _leased(project: Project, scope: str) -> AbstractAsyncContextManager[Lease]:
    return leased(
        project.store,
        [scope],
        project.holder,
        timeout_s=project.lock_timeout_s,
        reporter=project.reporter,
    )


def _question(
    state: State, address: Address, adopt: str | None
) -> tuple[JournalEntry | None, StateRecord | None]:
    """The open call of `address`, and its record. Raises ReconcilerError when there is nothing to say."""
    opened = next((entry for entry in state.open_intents if entry.address == address), None)
    record = state.records.get(address)
    if opened is None and (record is None or not record.inferred or adopt is None):
        near, plan = _open_one(state, address), command("plan")
        raise ReconcilerError(
            f"`{address}` has no call of unknown outcome",
            help=near or f"`{plan}` lists what is unknown",
            advice=() if near else (plan,),
        )
    return opened, record


def _open_one(state: State, address: Address) -> str:
    """What `address` may be a misspelling of, among what there is a question about."""
    asked = {entry.address for entry in state.open_intents if entry.address is not None}
    inferred = {owner for owner, record in state.records.items() if record.inferred}
    return nearest_address(address, asked | inferred)


async def _must_be_possible(
    project: Project, state: State, opened: JournalEntry, intent: Intent, id: str
) -> None:
    """Raises ReconcilerError for an object that the call cannot have made, or that is somebody's already."""
    address = opened.address
    assert address is not None
    kind = find_kinds()[address.kind]
    for owner, record in state.records.items():
        if (owner.kind, owner.app) != (address.kind, address.app) or record.id != id:
            continue
        if intent.creates and service_of(kind, None, record) == intent.service:
            raise ReconcilerError(
                f"{id} is recorded as `{owner}`", help="one object has one address; look for another id"
            )
    if id in intent.baseline:
        raise ReconcilerError(f"{id} was there before the call was sent", help="look for another id")
    read = intent.find or find_kinds()[address.kind].read(address, id, project.capabilities)
    if read is not None and intent.service != PLATFORM:
        read = replace(read, service=intent.service)
    live = await _read_one(project, read, id)
    for name in ("name", "region"):
        want, found = intent.applied.get(name), getattr(live, name, None)
        if want is not None and found is not None and want != found:
            raise ReconcilerError(
                f"{id} is not what the call asked for: its {name} is `{found}`, not `{want}`",
                help="look for another id; an object that this call did not make is adopted by `metadata.id`",
            )


async def _read_one(project: Project, read: Read | None, id: str) -> Any:
    if read is None or not isinstance(read.path, str):
        raise ReconcilerError(f"nothing on the platform shows whether there is a {id}")
    try:
        observation = await project.services.read(read)
    except PlatformError as failure:
        raise ReconcilerError(f"cannot check that {id} exists: {failure.message}") from failure
    for item in observation.objects:
        if item.id == id and getattr(item, "present", True):
            return item
    raise ReconcilerError(f"there is no {id} on the platform", help="check the id")


async def _confirm(project: Project, lease: Lease, record: StateRecord | None, adopt: str | None) -> str:
    assert record is not None
    if record.id != adopt:
        raise ReconcilerError(f"`{record.address}` is recorded as {record.id}, not {adopt}")
    kind = find_kinds()[record.address.kind]
    read = located(kind, record.address, record.id, project.capabilities, record=record)
    await _read_one(project, read, record.id)
    await _note(project.store, project.clock, lease, project.new_id(), replace(record, inferred=False))
    return f"{adopt} is confirmed"


async def settle_restart(project: Project, address: Address) -> str:
    """A person restarted the machine: nothing is owed any more."""
    record = (await project.store.load()).records.get(address)
    if record is None or not record.obligations:
        raise ReconcilerError(f"`{address}` owes no restart")
    async with _leased(project, record.scope) as lease:
        done = replace(record, obligations=())
        await _note(project.store, project.clock, lease, project.new_id(), done)
    return "the restart is recorded as done"


async def forget(
    store: Store, address: Address, clock: Clock, holder: str, run: str, timeout_s: float
) -> bool:
    """Drop the record of `address`; False when there is none."""
    record = (await store.load()).records.get(address)
    if record is None:
        return False
    async with leased(store, [record.scope], holder, timeout_s=timeout_s) as lease:
        entry = JournalEntry(run, Event.DECIDED, clock.now(), address, data={"forget": record.id})
        await store.commit(lease, [entry], remove=[address])
    return True


async def move(
    store: Store, source: Address, target: Address, clock: Clock, holder: str, run: str, timeout_s: float
) -> list[StateRecord]:
    """Record the object of `source` under `target` instead; the object itself is left alone.

    Without an [index] on either side, all of a `count` move. Returns the moved records. Raises
    ReconcilerError when the two cannot name one object, `target` is recorded already, or a call for one of
    them is open.
    """
    if source.kind != target.kind or source.app != target.app:
        raise ReconcilerError(
            f"`{source}` cannot become `{target}`: an object stays what it is, and in its app",
            help="only the name and the [index] of an address can change",
        )
    if source == target:
        raise ReconcilerError(
            f"FROM and TO are the same address, `{source}`",
            help="give the recorded address first, then the new one",
        )
    state = await store.load()
    put, _ = moved_records(_moves(state, source, target), state.records)
    async with leased(store, {each.scope for each in put.values()}, holder, timeout_s=timeout_s) as lease:
        state = await store.load()
        moves = _moves(state, source, target)
        put, _ = moved_records(moves, state.records)
        parts = Parts()
        for each in moves:
            parts.move(put[each.target].scope, moved_entry(each, run, clock.now()), each.source)
        for record in put.values():
            parts.of(record.scope).put.append(record)
        stored = await parts.commit(store, lease)
    targets = {each.target for each in moves}
    return [record for record in stored if record.address in targets]


def _moves(state: State, source: Address, target: Address) -> list[Move]:
    if source not in state.records:
        raise not_recorded(source, state.records)
    asked = {source: target}
    moves = [
        Move(address, to, record.id, record.serial)
        for address, record in sorted(state.records.items(), key=lambda item: item[0].ordinal)
        if (to := next_address(address, asked)) is not None
    ]
    for each in moves:
        _check_movable(state, each.source, each.target)
    return moves


def _check_movable(state: State, source: Address, target: Address) -> None:
    record = state.records[source]
    if record.id in ("", source.name):
        forget = command("state", "forget", source)
        raise ReconcilerError(
            f"`{source}` is identified by its name on the platform, so a new name would be a new object",
            help=f"`{forget}`, and let the next apply make `{target}`; or, if the manifest says "
            f"`name: {source.name}`, write a Moved manifest",
            advice=(forget,),
        )
    if target in state.records:
        forget = command("state", "forget", target)
        raise ReconcilerError(
            f"`{target}` is recorded already, as {state.records[target].id}",
            help=f"`{forget}` drops that record",
            advice=(forget,),
        )
    for opened in state.open_intents:
        if opened.address in (source, target):
            plan = command("plan")
            raise ReconcilerError(
                f"`{opened.address}` has a call of unknown outcome",
                help=f"run `{plan}`, which says how to settle it, and move then",
                advice=(plan,),
            )


async def claim(store: Store, id: str, clock: Clock, holder: str, run: str, timeout_s: float) -> bool:
    """Record that a person decided about the unclaimed object `id`. False when there is none."""
    entries = (await store.load()).unclaimed
    found = next((entry for entry in entries if entry.data["unclaimed"] == id), None)
    if found is None:
        return False
    scope = found.data.get("scope", WHOLE_STATE)
    async with leased(store, [scope], holder, timeout_s=timeout_s) as lease:
        entry = JournalEntry(run, Event.DECIDED, clock.now(), found.address, data={"claimed": id})
        await store.commit(lease, [entry])
    return True


async def _note(store: Store, clock: Clock, lease: Lease, run: str, record: StateRecord) -> None:
    entry = JournalEntry(run, Event.DECIDED, clock.now(), record.address, data={"id": record.id})
    await store.commit(lease, [entry], [record])


def _scope(record: StateRecord | None) -> str:
    assert record is not None
    return record.scope
