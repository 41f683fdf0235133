"""What must hold after every event. Each is one small function over the ghost's log; its name is its name.

They yield what is wrong, in words. The `check_*` functions at the end run those that an event concerns.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.core.model import Address, Deletion, StateRecord
from reconciler.sandbox.exchange import Response
from reconciler.state.store import Event, JournalEntry, Lease, State
from tests.reliability.simulation.faults import LAG_S, STALE_S
from tests.reliability.simulation.ghost import UNNUMBERED, Ghost, Opened, Sending
from tests.reliability.simulation.power import AT_REST, COMING, wanted_power

if TYPE_CHECKING:
    from tests.reliability.simulation.process import Process

Problems = Iterator[str]
FRESH_S = 0.5  # so old may the answer be that serves a check (`Keeping`)
SETTLE_S, DEADLINE_S = 180.0, 30.0  # so long is a create waited for, and another call
READ_LAG_S = 10.0  # so long may a read show a volume as it was before it was deleted
SNAPSHOT_SERVES_S = 3600 + 600  # so old may the snapshot be that a dangerous call relies on


# --- of a mutation that is being sent ---


def a_call_has_a_durable_intent(ghost: Ghost, sending: Sending) -> Problems:
    opened = sending.opened
    if opened is None:
        yield f"{sending.method} {sending.path} was sent without an intent of its own"
    elif not opened.open:
        yield f"{sending.method} {sending.path} was sent after its intent was closed"
    elif (opened.data["method"], opened.data["path"]) != (sending.method, sending.path):
        yield f"{sending.method} {sending.path} is not what its intent says: {opened.data['path']}"
    elif opened.process is not sending.process:
        yield f"{sending.method} {sending.path} was sent on another run's intent"


def an_intent_is_sent_once(ghost: Ghost, sending: Sending) -> Problems:
    if sending.opened is not None and sending.opened.sending is not None:
        yield f"{sending.method} {sending.path} was sent a second time on one intent"


def no_call_after_the_lease_is_lost(ghost: Ghost, sending: Sending) -> Problems:
    """A process that is stopped after it has checked its lease cannot know better: it sends late."""
    if sending.opened is not None and not sending.late:
        scope = sending.opened.data["scope"]
        if ghost.leases.get(scope) != (sending.opened.epoch, sending.process):
            yield f"{sending.method} {sending.path} was sent without the lease of {scope}"


def _is_late(ghost: Ghost, sending: Sending) -> bool:
    """Whether its lease was ours when it was checked, and no more when the call is sent."""
    if not ghost.shared or sending.opened is None or sending.checked_s is None:
        return False
    lost_s = ghost.lost_at.get((sending.opened.data["scope"], sending.opened.epoch))
    return lost_s is not None and sending.checked_s <= lost_s + FRESH_S


def is_untimely(ghost: Ghost, sending: Sending) -> bool:
    """Whether a late call lands when a successor no longer waits for it."""
    if not sending.late or sending.opened is None:
        return False
    waits_s = SETTLE_S if sending.opened.creates else DEADLINE_S
    return ghost.timeline.time() > sending.opened.at_s + waits_s


def no_call_before_a_person_agreed(ghost: Ghost, sending: Sending) -> Problems:
    if not sending.process.approved:
        yield f"{sending.method} {sending.path} was sent although nobody agreed to the plan"


def a_refused_plan_never_runs(ghost: Ghost, sending: Sending) -> Problems:
    process, about = sending.process, str(sending.opened.address) if sending.opened is not None else ""
    if process.refused and (process.refuses_all or about in process.refused):
        yield f"{sending.method} {sending.path} was sent by a plan that refuses {', '.join(process.refused)}"


def no_delete_without_approval(ghost: Ghost, sending: Sending) -> Problems:
    if sending.method != "DELETE" or sending.opened is None:
        return
    address, id = sending.opened.address, sending.path.rsplit("/", 1)[-1]
    if (address, id) not in sending.process.approved_ids:
        yield f"DELETE of {id} for {address} was not approved"
    record = ghost.records.get(address)
    if record is None or record.lifecycle.deletion is not Deletion.DELETE:
        yield f"DELETE of {id} for {address}, whose record does not say that it may be deleted"
    elif id in ghost.inferred:
        yield f"DELETE of {id} for {address}, which was only inferred"
    held_since = ghost.attached_since(id)
    if held_since is not None and held_since < sending.process.began_s - LAG_S:
        yield f"DELETE of {id} for {address}, which a machine holds"


def no_shrink(ghost: Ghost, sending: Sending) -> Problems:
    if not sending.path.endswith("/extend"):
        return
    id = sending.path.rsplit("/", 2)[-2]
    volume = ghost.volume(id)
    touched = any(touch.at_s >= sending.process.began_s - STALE_S for touch in ghost.touched.get(id, ()))
    if volume is not None and not touched and sending.body["size_gb"] < volume.size_gb:
        yield f"{id} of {volume.size_gb} GB was asked to have {sending.body['size_gb']} GB"


def nothing_recorded_is_made_again(ghost: Ghost, sending: Sending) -> Problems:
    opened = sending.opened
    if opened is not None and opened.creates and opened.address in ghost.records:
        yield f"{opened.address} is recorded, and was created once more"


def nothing_unknown_is_relied_on(ghost: Ghost, sending: Sending) -> Problems:
    if sending.opened is None:
        return
    address = sending.opened.address
    for other in ghost.open_intents(address):
        if other is not sending.opened and other.data["if_unknown"] != "repeat":
            yield f"{address} was touched while an earlier call for it is unknown"
    for resource in sending.process.desired.resources:
        if resource.address == address:
            for reference in resource.references:
                if any(other.creates for other in ghost.open_intents(reference.address)):
                    yield f"{address} was sent while {reference.address}, which it needs, is unknown"


def a_snapshot_comes_before_the_danger(ghost: Ghost, sending: Sending) -> Problems:
    opened = sending.opened
    if opened is None or opened.address.kind != "Volume":
        return
    danger = "delete" if sending.method == "DELETE" else "extend" if sending.path.endswith("/extend") else ""
    record = ghost.records.get(opened.address)
    if not danger or record is None or danger not in record.lifecycle.snapshot_before:
        return
    if danger == "extend" and opened.address not in {each.address for each in _wanted(sending)}:
        return
    now = ghost.sandbox.world.now
    if not any(
        each.state == "created" and now - (each.created_at or 0) <= SNAPSHOT_SERVES_S
        for each in ghost.snapshots(record.id)
    ):
        yield f"{sending.method} {sending.path} was sent without a usable snapshot"


def nothing_that_moved_is_touched(ghost: Ghost, sending: Sending) -> Problems:
    """Between the plan and the lease under which it runs, its objects must not have changed."""
    process, opened = sending.process, sending.opened
    planned_s, leased_s = process.planned_s, process.leased_s
    if opened is not None and opened.address.kind == "Machine":
        return  # see `power_follows_the_manifest`
    if planned_s is None or leased_s is None or opened is None or opened.address not in ghost.records:
        return
    hidden_s = LAG_S if process.deceived else 0.0
    guarded = _guarded(sending)
    for touch in ghost.touched.get(ghost.records[opened.address].id, ()):
        seen_by_s = leased_s - max(hidden_s, READ_LAG_S if "state" in touch.fields else 0.0)
        if planned_s < touch.at_s <= seen_by_s and guarded & set(touch.fields):
            yield f"{opened.address} was changed by a person after the plan was made, and the plan ran"


def no_restart_without_need(ghost: Ghost, sending: Sending) -> Problems:
    """One restart does all that was owed by the volumes of a machine when it was sent.

    One of them is on that machine, or somebody moved it after the last look at it.
    """
    machine, verb = _of_machine(sending)
    if verb not in ("restart", "stop") or _is_for_power(sending):
        return
    looked_s = sending.process.looked_s
    # A volume that came to the machine after that restart was not served by it.
    since = [
        max(ghost.owed_at[obligation], ghost.attached_since(record.id) or 0.0)
        for record in ghost.records.values()
        for obligation in record.obligations
        if ghost.holder(record.id) in (machine, None)
        or any(
            each.at_s >= looked_s.get(record.id, sending.at_s) for each in ghost.touched.get(record.id, ())
        )
    ]
    if not since:
        yield f"{sending.path} was sent, and nothing is owed"
    elif max(since) < ghost.restarted_at.get(machine, 0.0):
        yield f"{sending.path} was sent, and what is owed was done by the restart before"


def what_is_at_rest_is_not_woken(ghost: Ghost, sending: Sending) -> Problems:
    machine, verb = _of_machine(sending)
    if verb in ("restart", "stop", "start"):
        wanted = wanted_power(sending.process.desired.resources, machine)
        its_own = verb == "stop" and wanted == "stopped" and _is_for_power(sending)
        if wanted in AT_REST and not its_own:
            yield f"{sending.path} was sent, and a manifest wants {machine} {wanted}"


def power_follows_the_manifest(ghost: Ghost, sending: Sending) -> Problems:
    """A call for a machine's power is the one that its manifest asks for, and is not sent for nothing."""
    machine, verb = _of_machine(sending)
    process, opened = sending.process, sending.opened
    if opened is None or not _is_for_power(sending):
        return
    wanted = {"suspend": "suspended", "start": "started", "stop": "stopped"}[verb]
    if [each.spec.power for each in _wanted(sending)] != [wanted]:
        yield f"{sending.path} was sent, and no manifest wants {machine} {wanted}"
    if opened.key[2] > 1:
        return  # the answer to the first one was lost
    if "machine.get" in process.project.capabilities:
        if process.power_at_first.get(machine) == wanted == process.power_shown.get(machine):
            yield f"{sending.path} was sent, and {machine} was {wanted} all the time"
        if process.power_shown.get(machine) != process.power_leased.get(machine):
            yield f"{sending.path} was sent, and {machine} was changed after the plan was made"
    elif ghost.open_intents(opened.address) != [opened]:
        return  # what an earlier call did is unknown
    elif opened.address in ghost.records:
        power = ghost.records[opened.address].applied.get("power")
        if power in (wanted, COMING[wanted]):
            yield f"{sending.path} was sent, and {machine} is recorded as {power}"


def _is_for_power(sending: Sending) -> bool:
    """Whether a machine's own manifest asked for the call, and not a restart that a volume owes."""
    return sending.opened is not None and sending.opened.address.kind == "Machine"


def _of_machine(sending: Sending) -> tuple[str, str]:
    """The machine that a call is about, and its verb; empty for other calls."""
    parts = sending.path.split("/")
    return (parts[-2], parts[-1]) if "machines" in parts[:-2] else ("", "")


def _guarded(sending: Sending) -> set[str]:
    if sending.method == "DELETE":
        return {"size_gb", "attached_machine_id", "state"}
    fields = {"state"}
    for resource in _wanted(sending):
        fields |= set(resource.spec.model_fields_set)
    return fields


def _wanted(sending: Sending) -> list[Any]:
    assert sending.opened is not None
    return [each for each in sending.process.desired.resources if each.address == sending.opened.address]


# --- of what a request did ---


def no_volume_gets_smaller(ghost: Ghost, sending: Sending, response: Response) -> Problems:
    if response.status < 300 and sending.path.endswith("/extend"):
        volume = ghost.volume(sending.path.rsplit("/", 2)[-2])
        if volume is not None and volume.size_gb < sending.body["size_gb"]:
            yield f"{volume.id} has {volume.size_gb} GB after an extend to {sending.body['size_gb']} GB"


def _note_restart(ghost: Ghost, sending: Sending, response: Response) -> None:
    machine, verb = _of_machine(sending)
    if response.status < 300 and machine:
        ghost.tally.note("machine", verb)
        if sending.opened is not None and sending.opened.address.kind == "Machine":
            ghost.called_at[machine] = ghost.timeline.time()
        elif verb in ("restart", "start"):
            ghost.tally.note("restarted")
    if response.status < 300 and sending.path.endswith("/extend") and response.json().get("needs_restart"):
        id = sending.path.rsplit("/", 2)[-2]
        ghost.owing[id] = (ghost.sandbox.world.now, ghost.holder(id))
        ghost.tally.note("restart owed")


# --- of a commit ---


def no_write_after_the_lease_is_lost(
    ghost: Ghost, process: "Process", lease: Lease, entries: Sequence[JournalEntry]
) -> Problems:
    for scope, epoch in lease.epochs.items():
        current, holder = ghost.leases.get(scope, (0, None))
        # Where many share it, what was sent in time may land once it was given back, if nobody has it since.
        if current != epoch or (holder is not process and not ghost.shared):
            yield f"{process.name} wrote with a lease of {scope} that is no longer its own"


def who_only_looks_writes_nothing(
    ghost: Ghost, process: "Process", lease: Lease, entries: Sequence[JournalEntry]
) -> Problems:
    if process.run.verb in ("plan", "drift", "save"):
        yield f"{process.name} only looks, and wrote {', '.join(entry.event for entry in entries)}"


def a_plan_runs_once(
    ghost: Ghost, process: "Process", lease: Lease, entries: Sequence[JournalEntry]
) -> Problems:
    for entry in entries:
        if entry.event is Event.RUN_STARTED:
            if process.plan and ghost.plans_run.get(process.plan, entry.run) != entry.run:
                yield f"plan {process.plan} ran a second time"
            ghost.plans_run[process.plan] = entry.run


def what_is_done_was_carried_out(
    ghost: Ghost, process: "Process", lease: Lease, entries: Sequence[JournalEntry]
) -> Problems:
    for entry in entries:
        opened = ghost.intents.get((entry.run, entry.step, entry.attempt))
        sending = opened.sending if opened is not None else None
        if entry.event is not Event.DONE or entry.address is None:
            continue
        if entry.data.get("reached"):
            yield from _not_reached(ghost, process, entry)
        elif sending is not None and not sending.carried:
            yield f"{entry.step} is recorded as done, and was never carried out"


def _not_reached(ghost: Ghost, process: "Process", entry: JournalEntry) -> Problems:
    """The wait for a power ended: the machine has it, or a person changed that a moment ago."""
    assert entry.address is not None
    record = ghost.records.get(entry.address)
    machine = ghost.machine(record.id) if record is not None else None
    if record is None or machine is None:
        return
    power = record.applied.get("power")
    # One state has two words, and a restart that a volume owes leads back to it.
    if machine.state == power or (machine.state in ("running", "restarting") and power == "started"):
        return
    if not any(touch.at_s >= process.began_s for touch in ghost.touched.get(record.id, ())):
        yield f"{entry.address} is recorded as {power}, and is {machine.state}"


def adoptions_rest_on_evidence(ghost: Ghost, process: "Process", put: Sequence[StateRecord]) -> Problems:
    """What is inferred to be ours was new, free, and held by nobody when we looked."""
    for record in ghost.newly:
        if record.address.kind != "Volume" or record.id not in ghost.inferred:
            continue
        others = [each for each in ghost.records.values() if each.id == record.id]
        if len(others) > 1:
            yield f"{record.id} is recorded for {' and '.join(str(each.address) for each in others)}"
        made = ghost.made.get(record.id)
        if made is not None and made.opened is not None and made.opened.address != record.address:
            yield f"{record.id}, made for {made.opened.address}, was taken for {record.address}"
        held_since = ghost.attached_since(record.id)
        looked_s = process.looked_s.get(record.id)  # a list may show the past
        if looked_s is None:
            yield f"{record.id} was taken for {record.address} without a look at it"
        elif held_since is not None and held_since < looked_s:
            yield f"{record.id} was taken for {record.address} although a machine holds it"
        volume = ghost.volume(record.id)
        for other in ghost.twins(volume) if volume is not None else ():
            if _may_be_it(ghost, process, record, other.id):
                yield f"{record.id} was taken for {record.address}, although it may have been {other.id}"
        if made is None and _was_there_before(ghost, record):
            yield f"{record.id} was taken for {record.address} although it was there before the call"


def _may_be_it(ghost: Ghost, process: "Process", record: StateRecord, other: str) -> bool:
    """Whether `other` too appeared between the call and the list, and is nobody's."""
    asked = _asked(ghost, record)
    tracked = any(each.id == other for each in ghost.records.values())
    made = ghost.made.get(other)
    ours = made is not None and made.opened is not None and made.opened.address != record.address
    listed_s = process.listed_s.get(f"/v1/apps/{record.address.app}/volumes", 0.0)
    return bool(asked) and not tracked and not ours and asked[-1].at_s < ghost.born_at[other] < listed_s


def _asked(ghost: Ghost, record: StateRecord) -> list[Opened]:
    """The intents that were to create what `record` is about, and were sent."""
    return [
        each
        for each in ghost.intents.values()
        if each.address == record.address and each.creates and each.sending is not None
    ]


def _was_there_before(ghost: Ghost, record: StateRecord) -> bool:
    asked = _asked(ghost, record)
    if not asked:
        return False
    latest = asked[-1]
    return ghost.born_at.get(record.id, -LAG_S) < latest.process.began_s - LAG_S


def adoptions_are_unambiguous(ghost: Ghost, process: "Process", put: Sequence[StateRecord]) -> Problems:
    """What was simply found under the right name is taken only if there is no other one."""
    for record in ghost.newly:
        address = record.address
        volume = ghost.volume(record.id) if address.kind == "Volume" else None
        if volume is None or record.id in ghost.made or process.deceived:
            continue
        tracked = {each.id for each in ghost.records.values()}
        looked_s = min(process.planned_s or 0.0, process.began_s)  # planning itself may take seconds
        for other in ghost.twins(volume):
            if other.id not in tracked and ghost.born_at.get(other.id, 0.0) < looked_s - 1:
                yield f"{record.id} was taken for {address}, and not {other.id}, which has the same name"


def one_record_per_object(ghost: Ghost, process: "Process", put: Sequence[StateRecord]) -> Problems:
    for record in put:
        same = [each.address for each in ghost.records.values() if each.id == record.id and record.id]
        if len(same) > 1 and record.address.kind != "Secret":
            yield f"{record.id} is recorded as {' and as '.join(map(str, same))}"


# --- of the world as a whole ---


def one_object_per_address(ghost: Ghost, addresses: Sequence[Address]) -> Problems:
    for address in addresses:
        living = ghost.living(address)
        if len(living) > 1:
            yield f"{address} has {len(living)} live objects: {', '.join(sorted(living))}"


def every_object_is_tracked_or_unknown(ghost: Ghost, addresses: Sequence[Address]) -> Problems:
    for address in addresses:
        record = ghost.records.get(address)
        for id in ghost.living(address):
            if record is not None and record.id == id:
                continue
            made = ghost.made[id]
            if made.opened is None or not made.opened.open:
                yield f"{id}, made for {address}, is neither recorded nor listed as unknown"


def restarts_stay_owed(ghost: Ghost, addresses: Sequence[Address]) -> Problems:
    ghost.forget_settled()
    for address in addresses:
        record = ghost.records.get(address)
        if record is None or record.id not in ghost.owing or record.obligations:
            continue
        if not any(each.data["owes"] for each in ghost.open_intents(address)):
            yield f"{address} ({record.id}) needs a restart, which nobody knows of any more"


# --- of the state on disk ---


def what_was_stored_is_there(ghost: Ghost, state: State) -> Problems:
    stored = {record.address: record for record in state.records.values()}
    for address in sorted(stored.keys() | ghost.records.keys(), key=str):
        there, known = stored.get(address), ghost.records.get(address)
        if there is not None and known is not None and known.serial == UNNUMBERED:
            there = replace(there, serial=UNNUMBERED)
        if there != known:
            yield f"the record of {address} is {there}, and was stored as {known}"
    listed = {(entry.run, entry.step, entry.attempt) for entry in state.open_intents}
    opened = {each.key for each in ghost.open_intents()}
    for key in sorted(listed ^ opened):
        how = "open" if key in listed else "closed"
        yield f"the intent {key} is {how} in the state, against what was stored"


def serials_only_rise(ghost: Ghost, process: "Process", put: Sequence[StateRecord]) -> Problems:
    for record in put:
        before = ghost.serials_before.get(record.scope, 0)
        if record.serial <= before:
            yield f"{record.address} got serial {record.serial} after {before} was given in {record.scope}"


def a_lease_lasts_as_promised(ghost: Ghost, process: "Process", scope: str, now: float) -> Problems:
    """Nobody takes a scope while the answer to a call can come whose sender has checked its lease."""
    known, holder = ghost.leases.get(scope, (0, None))
    until_s = ghost.promises.pop((scope, known), 0.0)
    if holder is not None and holder.alive and until_s > now:
        yield f"{process.name} took {scope} from {holder.name}, which may send for {until_s - now:.1f} s"


def no_check_of_an_ended_lease(ghost: Ghost, process: "Process", lease: Lease) -> Problems:
    """However long the answer took: by its own clock, a process can tell how old that is."""
    for key in lease.epochs.items():
        if key in ghost.lost_at and key not in ghost.forced:
            ago_s = ghost.timeline.time() - ghost.lost_at[key]
            yield f"{process.name} relies on its lease of {key[0]}, which another took {ago_s:.1f} s ago"


def epochs_only_rise(ghost: Ghost, process: "Process", lease: Lease) -> Problems:
    for scope, epoch in lease.epochs.items():
        known, holder = ghost.leases.get(scope, (0, None))
        if epoch <= known:
            yield f"{scope} was leased at epoch {epoch} after {known}"
        if holder is not None and holder.alive and holder is not process:
            yield f"{scope} was leased to {process.name} while {holder.name} holds it"


_OF_SENT = (
    a_call_has_a_durable_intent,
    an_intent_is_sent_once,
    no_call_after_the_lease_is_lost,
    no_call_before_a_person_agreed,
    a_refused_plan_never_runs,
    no_delete_without_approval,
    no_shrink,
    nothing_recorded_is_made_again,
    nothing_unknown_is_relied_on,
    a_snapshot_comes_before_the_danger,
    nothing_that_moved_is_touched,
    no_restart_without_need,
    what_is_at_rest_is_not_woken,
    power_follows_the_manifest,
)
_OF_SENT_LATE = (an_intent_is_sent_once, no_call_before_a_person_agreed, a_refused_plan_never_runs)
_OF_COMMITTED = (
    no_write_after_the_lease_is_lost,
    who_only_looks_writes_nothing,
    a_plan_runs_once,
    what_is_done_was_carried_out,
)
_OF_PUT = (
    adoptions_rest_on_evidence,
    adoptions_are_unambiguous,
    one_record_per_object,
    serials_only_rise,
)
_OF_WORLD = (one_object_per_address, every_object_is_tracked_or_unknown, restarts_stay_owed)


def check_sent(ghost: Ghost, sending: Sending) -> None:
    sending.late = _is_late(ghost, sending)
    if sending.late:
        ghost.tally.note("late sender")
    for invariant in _OF_SENT_LATE if sending.late else _OF_SENT:
        _report(ghost, invariant.__name__, invariant(ghost, sending))


def check_carried(ghost: Ghost, sending: Sending, response: Response) -> None:
    _report(ghost, no_volume_gets_smaller.__name__, no_volume_gets_smaller(ghost, sending, response))
    _note_restart(ghost, sending, response)
    if sending.opened is not None:
        _check_world(ghost, [sending.opened.address])


def check_committed(
    ghost: Ghost,
    process: "Process",
    lease: Lease,
    entries: Sequence[JournalEntry],
    put: Sequence[StateRecord],
    remove: Sequence[Address],
) -> None:
    for invariant in _OF_COMMITTED:
        _report(ghost, invariant.__name__, invariant(ghost, process, lease, entries))
    for each in _OF_PUT:
        _report(ghost, each.__name__, each(ghost, process, put))
    addresses = [record.address for record in put] + [*remove]
    addresses += [entry.address for entry in entries if entry.address is not None]
    _check_world(ghost, list(dict.fromkeys(addresses)))


def check_head(ghost: Ghost, process: "Process", scope: str, epoch: int, *, taken: bool) -> None:
    """The epoch of a scope was stored. `taken`: by a lease; else nobody has the scope from now on."""
    known, holder = ghost.leases.get(scope, (0, None))
    if epoch < known:
        ghost.violate("epochs-only-rise", f"{process.name} wrote epoch {epoch} of {scope} over {known}")
    if epoch <= known:
        return
    now = ghost.timeline.time()
    _report(ghost, a_lease_lasts_as_promised.__name__, a_lease_lasts_as_promised(ghost, process, scope, now))
    ghost.lost_at[scope, known] = now
    ghost.leases[scope] = (epoch, process if taken else None)
    ghost.note(process.name, "takes" if taken else "frees", scope, epoch)
    if holder is not None:
        holder.lease_lost = True
        ghost.tally.note("lease lost" if (scope, known) in ghost.forced else "taken over")
        ghost.note(holder.name, "loses its lease of", scope)


def check_checked(ghost: Ghost, process: "Process", lease: Lease) -> None:
    """The store has just said that the lease may be relied on."""
    _report(ghost, no_check_of_an_ended_lease.__name__, no_check_of_an_ended_lease(ghost, process, lease))


def check_leased(ghost: Ghost, process: "Process", lease: Lease) -> None:
    _report(ghost, epochs_only_rise.__name__, epochs_only_rise(ghost, process, lease))


def check_stored(ghost: Ghost, state: State) -> None:
    """After a crash, and at the end of every run: what is on the disk is what was acknowledged."""
    _report(ghost, what_was_stored_is_there.__name__, what_was_stored_is_there(ghost, state))
    _check_world(ghost, list(ghost.records))


def _check_world(ghost: Ghost, addresses: Sequence[Address]) -> None:
    for invariant in _OF_WORLD:
        _report(ghost, invariant.__name__, invariant(ghost, addresses))


def _report(ghost: Ghost, invariant: str, problems: Problems) -> None:
    for problem in problems:
        ghost.violate(invariant.replace("_", "-"), problem)
