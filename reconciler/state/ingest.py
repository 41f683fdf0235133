"""Taking in what was spooled: which commits still apply, and what the state is once they do. Pure."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from msgspec.structs import replace

from reconciler.core.model import Address, StateRecord
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import owner_of
from reconciler.state import rules
from reconciler.state.rules import IntentKey, View
from reconciler.state.spool_file import Content, Kept, Line
from reconciler.state.store import Event, JournalEntry, State


@dataclasses.dataclass(slots=True)
class Ingestion:
    """What to write (`applied` in order, each into its scope; then `notes`), and what is known once it is.

    `done`: the lines that are then done with.
    """

    records: dict[Address, StateRecord]
    view: View[JournalEntry]
    serials: dict[str, int]
    applied: list[tuple[str, Kept]] = dataclasses.field(default_factory=list)
    notes: list[JournalEntry] = dataclasses.field(default_factory=list)
    done: list[Line] = dataclasses.field(default_factory=list)


def ingest(content: Content, state: State, now: datetime, within: Collection[str] | None = None) -> Ingestion:
    """Apply each line whose intents are open and whose records have not moved, if its scope is `within`.

    None: all. A line that no longer applies is done with; the object that it names and no record
    tracks gets a note.
    """
    opened = {(entry.run, entry.step, entry.attempt): entry for entry in state.open_intents}
    ingestion = Ingestion(dict(state.records), View(opened), dict(state.serials))
    late: list[tuple[str, Kept]] = []
    for line in content.lines:
        scope = _scope(line.kept, ingestion)
        if within is not None and scope not in within:
            continue
        ingestion.done.append(line)
        if _applies(line.kept, ingestion):
            _apply(line.kept, ingestion)
            ingestion.applied.append((scope, line.kept))
        else:
            late.append((scope, line.kept))
    ingestion.notes += [
        JournalEntry("", Event.DECIDED, now, data={"dropped": f"a half-written outcome, {torn}"})
        for torn in content.torn
    ]
    if late:
        known = tracked(ingestion.records.values())
        ingestion.notes += [note for scope, kept in late for note in _unclaimed(scope, kept, known, now)]
    return ingestion


def overlay(state: State, content: Content, now: datetime) -> State:
    """`state` as it is once all of `content` is taken in."""
    ingestion = ingest(content, state, now)
    return without_tracked(
        dataclasses.replace(
            state,
            records=ingestion.records,
            open_intents=tuple(ingestion.view.open_intents.values()),
            spooled=frozenset(scope for scope, _ in ingestion.applied),
            unclaimed=(*state.unclaimed, *ingestion.notes),
        )
    )


def without_tracked(state: State) -> State:
    """`state` with those unclaimed objects only that no record tracks."""
    if not state.unclaimed:
        return state
    known = {"", *state.elsewhere.values(), *tracked(state.records.values())}
    still = tuple(entry for entry in state.unclaimed if entry.data.get("unclaimed", "") not in known)
    return dataclasses.replace(state, unclaimed=still)


def tracked(records: Iterable[StateRecord]) -> frozenset[str]:
    """All ids that records name: their objects' own, and those of objects kept with them."""
    return frozenset(
        id for record in records for id in (record.id, *record.applied.values()) if isinstance(id, str)
    )


def _applies(kept: Kept, ingestion: Ingestion) -> bool:
    open_still = all(key in ingestion.view.open_intents for key in _keys(kept.entries))
    kinds = find_kinds()
    for record in kept.put:
        if record.address not in ingestion.records:
            others = (known for known in ingestion.records.values() if known.address not in kept.remove)
            if owner_of(kinds, record, others) is not None:
                return False  # one object has one address: another run has recorded it meanwhile
    return open_still and all(
        record.address in kept.remove
        or record.serial
        == (ingestion.records[record.address].serial if record.address in ingestion.records else 0)
        for record in kept.put
    )


def _scope(kept: Kept, ingestion: Ingestion) -> str:
    """Of the records and intents that it is about; that of its lease, if those do not tell."""
    scopes = {record.scope for record in kept.put}
    scopes |= {ingestion.records[address].scope for address in kept.remove if address in ingestion.records}
    scopes |= {
        ingestion.view.open_intents[key].data["scope"]
        for key in _keys(kept.entries)
        if key in ingestion.view.open_intents and "scope" in ingestion.view.open_intents[key].data
    }
    return min(scopes or kept.epochs)  # there is one; an older program's lease named several


def _apply(kept: Kept, ingestion: Ingestion) -> None:
    for entry in kept.entries:
        ingestion.view = rules.after(ingestion.view, rules.effect(entry), entry)
    for address in kept.remove:
        ingestion.records.pop(address, None)
    for record in kept.put:
        ingestion.serials[record.scope] = ingestion.serials.get(record.scope, 0) + 1
        ingestion.records[record.address] = replace(record, serial=ingestion.serials[record.scope])


def _unclaimed(scope: str, kept: Kept, known: Collection[str], now: datetime) -> Iterator[JournalEntry]:
    for entry in kept.entries:
        ids = [record.id for record in kept.put if record.address == entry.address]
        for id in dict.fromkeys([*ids, entry.data.get("id")]):
            if id and id not in known:
                because = "its outcome arrived after the call had been settled differently"
                data = {"unclaimed": id, "scope": scope, "step": entry.step, "because": because}
                yield JournalEntry(entry.run, Event.DECIDED, now, entry.address, data=data)


def _keys(entries: Iterable[JournalEntry]) -> Iterator[IntentKey]:
    for entry in entries:
        yield entry.run, entry.step, entry.attempt
