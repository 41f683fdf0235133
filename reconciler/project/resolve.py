"""Decisions of people about objects: lost calls, owed restarts, inferred ids, lookalikes.

Each decision is checked against the platform as far as it can be, written to the journal with the name of
the person, and changes records only: nothing but GET is sent.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from reconciler.approvals.creates import NOT_CREATED
from reconciler.core.advice import command
from reconciler.core.clock import sleep_telling
from reconciler.core.errors import PlatformError, ReconcilerError
from reconciler.core.model import DISMISSED, Address, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Read
from reconciler.execution.decisions import remember
from reconciler.execution.intents import Intent
from reconciler.execution.judging import is_held_by
from reconciler.execution.open_intents import parse_intent
from reconciler.execution.recorder import Recorder
from reconciler.execution.settling import candidates, left_of_window
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Subject
from reconciler.kinds.roles import Importable, holds_secrets, located, owner_of, service_of
from reconciler.manifests.validation.references import nearest_address
from reconciler.project.gather import read_siblings
from reconciler.project.identity import require_state
from reconciler.project.project import Project, settle_left
from reconciler.project.records import not_recorded
from reconciler.state.store import JournalEntry, Lease, State

_FORCE = "pass --force"
_SHOWN = ("name", "region", "size_gb", "plan")  # of what was sent, as evidence


async def resolve_unknown(
    project: Project, address: Address, *, adopt: str | None, force: bool = False
) -> str:
    """Close the open call of `address`: it made `adopt`, or (None) nothing. Also confirms an inferred id.

    `force`: a person knows better than what speaks against it (see `_must_be_over`, `_must_be_alike`).
    """
    project.sources.runs_programs = True  # one may give the secret that a provider is asked with
    opened, record = _question(await require_state(project), address, adopt)
    scopes = [record.scope] if record is not None else []
    scopes = [parse_intent(opened).scope] if opened is not None else scopes
    async with project.actor().leased(project.store, scopes) as lease:
        state = await project.store.load()
        opened, record = _question(state, address, adopt)
        if opened is None:
            return await _confirm(project, lease, record, adopt)
        intent = parse_intent(opened)
        recorder = Recorder(project.store, lease, opened.run, project.clock, state.records)
        said = {**project.by.to_json(), **({"forced": True} if force else {})}
        if adopt is None:
            if not force:
                await _must_be_over(project, state, opened, intent)
            await recorder.settle(opened, {"landed": False, **said})
            # Nothing but a person can say that such a create did not land.
            if intent.creates and intent.if_unknown == "ask":
                now = f"{project.clock.now():%Y-%m-%dT%H:%M:%SZ}"
                actor, key = project.actor(), str(address)
                await remember(project.store, actor, NOT_CREATED, lambda known: {**known, key: now})
            return "recorded as not created; the next apply may create it"
        live = await _must_be_possible(project, state, opened, intent, adopt)
        if not force:
            _must_be_alike(project, address, intent, live)
        made = intent.settled_record(address, record, adopt, opened.at)
        put = [replace(made, inferred=False)] if made is not None else []
        await recorder.settle(opened, {"id": adopt, **said}, put)
        return f"recorded as {adopt}"


async def _must_be_over(project: Project, state: State, opened: JournalEntry, intent: Intent) -> None:
    """Wait while the call may still take effect. Raises ReconcilerError where an object may be of it."""
    await _window_over(project, opened, intent)
    look = intent if intent.find is not None else _with_a_list(project, opened, intent)
    if look is None or look.find is None:
        return
    waited_s = 1.0
    while waited_s:
        try:
            observation = await project.services.read(look.find)
        except PlatformError as failure:
            raise ReconcilerError(
                f"cannot check that nothing was created: {failure.message}",
                help=f"run this again when the platform answers; if you are sure, {_FORCE}",
            ) from failure
        waited_s = await _window_over(project, opened, intent)  # by the platform's clock, too
    tracked = {record.id for record in state.records.values()}
    found = [item.id for item in candidates(look, observation.objects, tracked)]
    if found:
        adopt = command("resolve", opened.address, "--adopt", found[0] if len(found) == 1 else "ID")
        raise ReconcilerError(
            f"the call for `{opened.address}` may have created {', '.join(sorted(found))}, which has no "
            "record",
            help=f"if it did, run `{adopt}`; if you know that it did not, {_FORCE}",
            advice=(adopt,),
        )


async def _window_over(project: Project, opened: JournalEntry, intent: Intent) -> float:
    """Wait until the call can no longer take effect. Returns how many seconds that took."""
    assert opened.address is not None
    left_s = left_of_window(intent, opened.at, project.clock, project.services, project.limits.settle_s)
    tell = partial(project.reporter.settling, opened.address)
    tell(left_s)
    await sleep_telling(project.clock, left_s, tell)
    tell(0.0)
    return left_s


def _with_a_list(project: Project, opened: JournalEntry, intent: Intent) -> Intent | None:
    """A call that nothing could find when it was sent, where a list can show its object now."""
    assert opened.address is not None
    kind = find_kinds()[opened.address.kind].role(Importable)
    if kind is None or not intent.creates or intent.service != PLATFORM:
        return None
    listing = kind.listing(intent.scope.removeprefix("org/"), project.capabilities)
    match = {name: intent.applied[name] for name in ("name", "region") if name in intent.applied}
    return replace(intent, find=listing, match=match)


def _question(
    state: State, address: Address, adopt: str | None
) -> tuple[JournalEntry | None, StateRecord | None]:
    """The open call of `address`, and its record. Raises ReconcilerError when there is nothing to say."""
    opened = next((entry for entry in state.open_intents if entry.address == address), None)
    record = state.records.get(address)
    if opened is None and (record is None or not record.inferred or adopt is None):
        asked = {entry.address for entry in state.open_intents if entry.address is not None}
        inferred = {owner for owner, record in state.records.items() if record.inferred}
        near, plan = nearest_address(address, asked | inferred), command("plan")
        raise ReconcilerError(
            f"`{address}` has no call with an unknown outcome",
            help=near or f"`{plan}` lists what is unknown",
            advice=() if near else (plan,),
        )
    return opened, record


async def _must_be_possible(
    project: Project, state: State, opened: JournalEntry, intent: Intent, id: str
) -> Any:
    """The live object `id`.

    Raises ReconcilerError for one that the call cannot have made, or that is somebody's already.
    """
    address = opened.address
    assert address is not None
    kind = find_kinds()[address.kind]
    for owner, record in state.records.items():
        if (
            owner.kind != address.kind
            or record.id != id
            or (holds_secrets(kind) and owner.app != address.app)
        ):
            continue
        if intent.creates and service_of(kind, None, record) == intent.service:
            raise ReconcilerError(
                f"{id} is recorded as `{owner}`", help="one object has one address; look for another id"
            )
    if intent.creates:
        made = intent.record(address, id, opened.at, inferred=False)
        elsewhere = (await read_siblings(project.environments)).recorded_as(find_kinds(), made)
        if elsewhere:
            raise ReconcilerError(f"{id} is recorded {elsewhere}", help="look for another id")
    if id in intent.baseline:
        raise ReconcilerError(f"{id} was there before the call was sent", help="look for another id")
    read = intent.find or find_kinds()[address.kind].read(address, id, project.capabilities)
    if read is not None and intent.service != PLATFORM:
        read = replace(read, service=intent.service)
    return await _read_one(project, read, id)


def _must_be_alike(project: Project, address: Address, intent: Intent, live: Any) -> None:
    """Raises ReconcilerError for an object that differs from what the call asked for."""
    kind = find_kinds()[address.kind]
    sent = {name: value for name, value in intent.applied.items() if name in kind.Spec.model_fields}
    if not intent.creates or not sent:
        return
    spec = kind.Spec.model_construct(set(sent), **sent)
    asked = Resource(address, spec, intent.lifecycle, intent.source, {})
    subject = Subject(address, asked, None, live, project.clock.now(), project.capabilities)
    differing = [
        f"its {change.path} is `{change.before}`, not `{change.after}`" for change in kind.compare(subject)
    ]
    if differing:
        raise ReconcilerError(
            f"{live.id} does not match the call: {'; '.join(differing)}",
            help="look for another id; to adopt an object that this call did not create, use `metadata.id`. "
            f"If somebody changed it after it was created, {_FORCE}",
        )


async def _read_one(project: Project, read: Read | None, id: str) -> Any:
    """The live object `id`. Raises ReconcilerError where nothing shows it."""
    if read is None or not isinstance(read.path, str):
        raise ReconcilerError(f"nothing on the platform shows whether {id} exists")
    try:
        observation = await project.services.read(read)
    except PlatformError as failure:
        raise ReconcilerError(f"cannot check that {id} exists: {failure.message}") from failure
    for item in observation.objects:
        if item.id == id and getattr(item, "present", True):
            if item.bad_id:
                raise ReconcilerError(f"the `{item.bad_id}` of {id} is not a valid id")
            return item
    raise ReconcilerError(f"{id} does not exist on the platform", help="check the id")


async def _confirm(project: Project, lease: Lease, record: StateRecord | None, adopt: str | None) -> str:
    """Confirm an inferred id, once the platform shows the object."""
    assert record is not None
    if record.id != adopt:
        raise ReconcilerError(f"`{record.address}` is recorded as {record.id}, not {adopt}")
    kind = find_kinds()[record.address.kind]
    read = located(kind, record.address, record.id, project.capabilities, record=record)
    await _read_one(project, read, record.id)
    await _note(project, lease, replace(record, inferred=False), "confirmed")
    return f"{adopt} is confirmed"


async def settle_restarts(
    project: Project, addresses: Collection[Address], *, machine: str | None = None
) -> Mapping[Address, str]:
    """A person restarted what holds `addresses`, or `machine`: nothing is owed by them any more."""
    state = await require_state(project)
    intents = [parse_intent(opened) for opened in state.open_intents if opened.address in addresses]
    scopes = {intent.scope for intent in intents if intent.owes}
    if scopes:  # calls that may owe a restart are settled first, as an apply does
        await settle_left(project, state, lambda _: scopes)
        state = await project.store.load()
    records = state.records
    owing = [record for record in records.values() if record.obligations]
    chosen = [records[address] for address in addresses if address in records]
    if machine is not None:
        chosen = [
            record
            for record in owing
            if all(owed.machine == machine for owed in record.obligations)
            or await is_held_by(project.services, record, machine)
        ]
        if not chosen:
            raise ReconcilerError(f"no volume of machine {machine} owes a restart")
    free = [str(address) for address in addresses if records.get(address) not in owing]
    if free:
        owe = ", ".join(str(record.address) for record in owing) or "nothing"
        raise ReconcilerError(
            f"`{'`, `'.join(free)}` owes no restart",
            help=f"what owes one: {owe}; a Moved manifest counts here after the next apply",
        )
    for record in chosen:
        async with project.actor().leased(project.store, [record.scope]) as lease:
            await _note(project, lease, replace(record, obligations=()), "restarted")
    return {record.address: "the restart is recorded as done" for record in chosen}


async def confirm_inferred(project: Project, addresses: Collection[Address]) -> Mapping[Address, str]:
    """A person looked at what was found by evidence (all of it, or `addresses`): it is ours.

    Returns by which evidence, by address.
    """
    state = await require_state(project)
    inferred = {address: record for address, record in state.records.items() if record.inferred}
    unasked = [str(address) for address in addresses if address not in inferred]
    if unasked:
        raise ReconcilerError(f"`{'`, `'.join(unasked)}` has no inferred id")
    found = {}
    for address in addresses or sorted(inferred, key=str):
        record = inferred[address]
        async with project.actor().leased(project.store, [record.scope]) as lease:
            confirmed = await _confirm(project, lease, record, record.id)
        sent = ", ".join(f"{name} {record.applied[name]}" for name in _SHOWN if name in record.applied)
        found[address] = f"{confirmed}: sent at {record.created_at:%Y-%m-%d %H:%M:%S} UTC ({sent})"
    return found


async def dismiss(project: Project, address: Address, ids: Sequence[str]) -> str:
    """A person says that the objects `ids`, which are equal to that of `address`, are meant to be there.

    Raises ReconcilerError for an id that the platform does not show, or that a record has.
    """
    state = await require_state(project)
    record = state.records.get(address)
    if record is None:
        raise not_recorded(address, state.records)
    kind = find_kinds()[address.kind]
    for id in ids:
        owner = owner_of(find_kinds(), replace(record, id=id, address=address), state.records.values())
        if owner is not None or id == record.id:
            raise ReconcilerError(f"{id} is recorded as `{owner or address}`")
        read = located(kind, address, id, project.capabilities, record=record)
        await _read_one(project, read, id)
    actor = project.actor(project.new_id())
    async with actor.leased(project.store, [record.scope]) as lease:
        record = (await project.store.load()).records.get(address)
        if record is None:
            raise ReconcilerError(f"`{address}` is not recorded any more", help="run this again")
        known = sorted({*record.applied.get(DISMISSED, ()), *ids})
        after = replace(record, applied={**record.applied, DISMISSED: known})
        await project.store.commit(lease, [actor.decided({"dismissed": list(ids)}, address)], [after])
    return f"{', '.join(ids)}: will not be named any more"


async def _note(project: Project, lease: Lease, record: StateRecord, decided: str) -> None:
    """Record a decision, with the record that follows from it."""
    entry = project.actor(project.new_id()).decided({"id": record.id, decided: True}, record.address)
    await project.store.commit(lease, [entry], [record])
