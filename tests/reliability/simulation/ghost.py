"""What truly happened, kept beside the product and without asking it: invariants compare the two."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.core.model import Address, Obligation, StateRecord
from reconciler.rehearsal.twin import Timeline
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.parts.cluster import Cluster
from reconciler.sandbox.parts.volume import Snapshot, Volume
from reconciler.sandbox.world import Machine
from reconciler.services.machines.wire import machine as wires
from reconciler.state.store import REMEMBERED, Event, JournalEntry, Lease
from tests.reliability.simulation.tally import Tally

if TYPE_CHECKING:
    import asyncio

    from tests.reliability.simulation.process import Process

CANARY = "c4nary-Pa55"  # stands in every secret value
CLOSING = frozenset({Event.DONE, Event.FAILED, Event.SETTLED, Event.PENDING})
GONE = ("deleting", "deleted")

UNNUMBERED = -1  # the serial of a record whose commit was spooled

MOST_EVENTS = 5000  # a history that ends has some hundreds

Key = tuple[str, str, int]  # an intent's run, step and attempt


class Endless(Exception):
    """Something is done again and again."""


@dataclass(eq=False, slots=True)
class Opened:
    """An intent that is durable. `data`: `execution.intents.Intent` as JSON."""

    key: Key
    address: Address
    data: Mapping[str, Any]
    process: "Process"
    epoch: int
    at_s: float
    open: bool = True
    sending: "Sending | None" = None

    @property
    def creates(self) -> bool:
        return bool(self.data["creates"])


@dataclass(eq=False, slots=True)
class Sending:
    """One mutation on its way. `made`: the id of the object that it brought about.

    `checked_s`: since when its lease was checked. `late`: somebody else took the lease after that.
    """

    process: "Process"
    method: str
    path: str
    body: Any
    opened: Opened | None
    at_s: float
    made: str = ""
    carried: bool = False
    checked_s: float | None = None
    late: bool = False


@dataclass(slots=True)
class Touch:
    """A person's edit of one object's field, which no plan from before knows of."""

    at_s: float
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    """`invariant`: the name of the function in `invariants` (or of a check of the history)."""

    invariant: str
    message: str


@dataclass(eq=False)
class Ghost:
    """The log of one history. Nothing that the product says is believed.

    `owing`: volumes whose machine must boot to use what was added, since when, and which one. By machine:
    `restarted_at`, when the last restart known to be done was sent; `called_at`, when our last call
    for its power was carried out.

    Of a state that is `shared`, by scope and epoch: until when nobody may take the lease (`promises`),
    whether a person took it by force, when it was lost. `strays`: what calls made that came too late for
    any successor to wait for them. `aside`: by intent, the records from before its outcome was spooled.
    """

    sandbox: Sandbox
    timeline: Timeline
    managed: Sequence[str] = ()  # machines that manifests may name
    tally: Tally = field(default_factory=Tally)
    keep_trace: bool = False
    violation: Violation | None = None
    intents: dict[Key, Opened] = field(default_factory=dict)
    records: dict[Address, StateRecord] = field(default_factory=dict)
    made: dict[str, Sending] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    inferred: set[str] = field(default_factory=set)
    leases: dict[str, tuple[int, "Process | None"]] = field(default_factory=dict)
    owing: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    restarted_at: dict[str, float] = field(default_factory=dict)
    called_at: dict[str, float] = field(default_factory=dict)
    touched: dict[str, list[Touch]] = field(default_factory=dict)
    attached_at: dict[str, float] = field(default_factory=dict)
    born_at: dict[str, float] = field(default_factory=dict)
    plans_run: dict[str, str] = field(default_factory=dict)  # by plan: its run
    in_flight: int = 0
    last_disturbance_s: float = 0.0
    serials: dict[str, int] = field(default_factory=dict)  # by scope, the highest that was given
    serials_before: dict[str, int] = field(default_factory=dict)
    newly: list[StateRecord] = field(default_factory=list)
    shared: bool = False
    promises: dict[tuple[str, int], float] = field(default_factory=dict)
    forced: set[tuple[str, int]] = field(default_factory=set)
    lost_at: dict[tuple[str, int], float] = field(default_factory=dict)
    strays: dict[str, Sending] = field(default_factory=dict)
    aside: dict[Key, dict[Address, StateRecord | None]] = field(default_factory=dict)
    owed_at: dict[Obligation, float] = field(default_factory=dict)
    events: int = 0
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256()

    # --- the trace ---

    def note(self, *words: object) -> None:
        """One event: it counts, and it goes into the hash that two runs of one seed must share."""
        self.events += 1
        if self.events > MOST_EVENTS:
            raise Endless(f"more than {MOST_EVENTS} events")
        line = f"{self.timeline.time():.6f} {' '.join(map(str, words))}"
        self._hash.update(line.encode())
        if self.keep_trace:
            self.trace.append(line)

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()[:32]

    def violate(self, invariant: str, message: str) -> None:
        """Only the first violation counts: what follows it may be its consequence."""
        if self.violation is None:
            self.violation = Violation(invariant, message)
            self.note("VIOLATION", invariant, message)

    # --- the world ---

    def volume(self, id: str) -> Volume | None:
        return self.sandbox.world.find(Volume, id)

    def holder(self, id: str) -> str | None:
        """The machine that holds a volume."""
        volume = self.volume(id)
        return volume.attached_machine_id if volume is not None else None

    def attached_since(self, id: str) -> float | None:
        """The moment from which on a machine holds a volume; None when none does."""
        return self.attached_at.get(id) if self.holder(id) is not None else None

    def machine(self, id: str) -> Machine | None:
        """As it is now: what is due has happened."""
        self.sandbox.settle()
        return self.sandbox.world.find(Machine, id)

    def power(self) -> dict[str, str | None]:
        """By machine: where its power is or is heading; None where nobody can tell."""
        self.sandbox.settle()
        world = self.sandbox.world
        return {each.id: wires.Machine(id=each.id, state=each.state).power for each in world.all(Machine)}

    def forget_settled(self) -> None:
        """A machine that booted since, will start cold, or lost the volume owes no restart."""
        for id, (since, owed_by) in list(self.owing.items()):
            machine = self.machine(self.holder(id) or "")
            booted = machine is not None and (not machine.memory_kept or (machine.booted_at or 0.0) >= since)
            if booted or self.holder(id) is None or self.holder(id) != owed_by:
                del self.owing[id]

    def cluster(self, id: str) -> Cluster | None:
        return self.sandbox.world.find(Cluster, id)

    def alive(self, id: str) -> bool:
        """Whether a volume or a cluster of this id holds data."""
        volume = self.volume(id)
        if volume is not None:
            return volume.present
        cluster = self.cluster(id)
        return cluster is not None and cluster.state not in GONE

    def snapshots(self, volume_id: str) -> Iterator[Snapshot]:
        yield from self.sandbox.world.children(Snapshot, volume_id)

    def twins(self, volume: Volume) -> Iterator[Volume]:
        """Other volumes with data, of the same name in the same app and region."""
        for other in self.sandbox.world.children(Volume, volume.app):
            same = (other.name, other.region) == (volume.name, volume.region)
            if same and other.present and other is not volume:
                yield other

    # --- what was asked and done ---

    def open_intents(self, address: Address | None = None) -> list[Opened]:
        return [
            each
            for each in self.intents.values()
            if each.open and (address is None or each.address == address)
        ]

    def living(self, address: Address) -> set[str]:
        """The ids of all objects with data that are ours under `address`."""
        ids = {
            id
            for id, sending in self.made.items()
            if sending.opened is not None and sending.opened.creates and sending.opened.address == address
        }
        if address in self.records:
            ids.add(self.records[address].id)
        return {id for id in ids - self.forgotten if self.alive(id)}

    def take_aside(
        self,
        process: "Process",
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord],
        remove: Sequence[Address],
    ) -> None:
        """What was spooled counts like a commit, unless its intent was closed. It has no serial yet."""
        closed = [self.intents.get((entry.run, entry.step, entry.attempt)) for entry in entries]
        if all(opened is not None and opened.open for opened in closed):
            self.newly = [record for record in put if record.address not in self.records]
            unnumbered = [replace(record, serial=UNNUMBERED) for record in put]
            before = {each: self.records.get(each) for each in [*remove, *(each.address for each in put)]}
            self._take(process, None, lease, entries, unnumbered, remove)
            self.aside |= dict.fromkeys(((entry.run, entry.step, entry.attempt) for entry in entries), before)

    def _drop_aside(self, entries: Sequence[JournalEntry]) -> None:
        """What was spooled counts no more once a commit has closed its intent: its own, or a successor's."""
        for entry in entries:
            before = self.aside.pop((entry.run, entry.step, entry.attempt), {})
            for address, record in before.items():
                there = self.records.get(address)
                if there is None or there.serial == UNNUMBERED:
                    self.records.pop(address, None)
                    self.records |= {address: record} if record is not None else {}

    def _reopen(self, put: Sequence[StateRecord]) -> None:
        """What was spooled about a record that another run has moved meanwhile is never taken in."""
        moved = {record.address for record in put}
        for key in [key for key, before in self.aside.items() if moved & before.keys()]:
            del self.aside[key]
            self.intents[key].open = True

    def _note_restart(self, entry: JournalEntry, opened: Opened) -> None:
        """A restart that is recorded as done does what was owed when it was sent."""
        path = opened.data["path"]
        if entry.event is Event.DONE and opened.address.kind == "Volume" and "/machines/" in path:
            machine, verb = path.split("/")[-2:]
            if verb in ("restart", "start") and not opened.process.deceived:
                begun = [each.at_s for each in self.intents.values() if _restarts(each, opened, machine)]
                self.restarted_at[machine] = min(begun)

    def _note_confirmed(self, addresses: Iterable[str]) -> None:
        """A second look confirms what the first one, of an earlier commit, recorded: when it was made."""
        for record in (self.records.get(Address.parse(each)) for each in addresses):
            volume = self.volume(record.id) if record is not None else None
            if record is not None and volume is not None and record.applied.get("created_at"):
                self.tally.note("settled", "confirmed")
                self.inferred.discard(record.id)

    def take_in(
        self,
        process: "Process",
        task: "asyncio.Task[Any] | None",
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord],
        remove: Sequence[Address],
    ) -> None:
        """What became durable, because `task` asked for it."""
        self.newly = [record for record in put if record.address not in self.records]
        if not any((entry.run, entry.step, entry.attempt) in self.aside for entry in entries):
            self._reopen(put)
        self._drop_aside(entries)
        self._take(process, task, lease, entries, put, remove)

    def _take(
        self,
        process: "Process",
        task: "asyncio.Task[Any] | None",
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord],
        remove: Sequence[Address],
    ) -> None:
        for entry in entries:
            key = (entry.run, entry.step, entry.attempt)
            if entry.event is Event.INTENT:
                assert entry.address is not None
                epoch = lease.epochs.get(entry.data["scope"], 0)
                opened = Opened(key, entry.address, entry.data, process, epoch, self.timeline.time())
                self.intents[key] = opened
                process.intend(task, opened)
            elif entry.event in CLOSING and key in self.intents:
                self.intents[key].open = False
                self._note_restart(entry, self.intents[key])
            elif entry.event is Event.RUN_STARTED:
                self._note_confirmed(entry.data.get("confirmed", ()))
            self.tally.note("event", entry.event)
            if entry.event is Event.SETTLED:
                how = _how(entry.data)
                self.tally.note("settled", how)
                if how == "landed" and "id" in entry.data:
                    self.inferred.add(entry.data["id"])
            if "by" in entry.data or entry.event is Event.DECIDED:
                self.inferred.discard(entry.data.get("id"))
        for address in remove:
            left = self.records.pop(address, None)
            if left is not None and left.id not in {record.id for record in put}:
                self.inferred.discard(left.id)  # who takes it from now on has found it under its name
        for record in put:
            if record.address.kind == REMEMBERED:
                continue
            self.records[record.address] = record
            for obligation in record.obligations:
                self.owed_at.setdefault(obligation, self.timeline.time())
        self.serials_before = dict(self.serials)
        for record in put:
            self.serials[record.scope] = max(self.serials.get(record.scope, 0), record.serial)


def _restarts(each: Opened, last: Opened, machine: str) -> bool:
    """Whether `each` belongs to the restart of `machine` that ends with `last`."""
    alike = each.key[0] == last.key[0] and each.address.kind == last.address.kind
    return alike and f"/machines/{machine}/" in each.data["path"]


def _how(data: Mapping[str, Any]) -> str:
    if "by" in data:
        return "by-person"
    if "absolute" in data:
        return "absolute"
    return "not-landed" if data.get("landed") is False else "landed"
