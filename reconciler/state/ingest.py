"""Taking in what was spooled: which commits still apply, and what the state is once they do. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reconciler.core.model import Address, StateRecord
from reconciler.state import rules
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.rules import IntentKey, View
from reconciler.state.spool import Content, Kept, Line
from reconciler.state.store import Event, JournalEntry, State


@dataclass(slots=True)
class Ingestion:
    """What to write (`applied` in order, then `notes`), and what is known once it is.

    `done`: the lines that are then done with; `scopes`: those that the applied lines belong to.
    """

    records: dict[Address, StateRecord]
    view: View[JournalEntry]
    applied: list[Kept] = field(default_factory=list)
    notes: list[JournalEntry] = field(default_factory=list)
    done: list[Line] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)


def ingest(
    content: Content,
    records: Mapping[Address, StateRecord],
    opened: Sequence[JournalEntry],
    last_serial: int,
    now: datetime,
    within: Collection[str] | None = None,
) -> Ingestion:
    """Apply each line whose intents are open and whose records have not moved, if its scopes are `within`.

    None: all. A line that no longer applies is done with; the object that it names and no record
    tracks gets a note.
    """
    open_intents = {(entry.run, entry.step, entry.attempt): entry for entry in opened}
    found = Ingestion(dict(records), View(open_intents))
    late: list[Line] = []
    for line in content.lines:
        if not _applies(line.kept, found):
            late.append(line)
            continue
        scopes = _scopes(line.kept, found)
        if within is None or scopes <= set(within):
            last_serial = _apply(line.kept, found, last_serial)
            found.applied.append(line.kept)
            found.done.append(line)
            found.scopes |= scopes
    found.done += late
    found.notes += [
        JournalEntry("", Event.DECIDED, now, data={"dropped": f"a half-written outcome, {torn}"})
        for torn in content.torn
    ]
    if late:
        known = tracked(found.records.values())
        found.notes += [note for line in late for note in _unclaimed(line.kept, known, now)]
    return found


def overlay(state: State, content: Content, last_serial: int, now: datetime) -> State:
    """`state` as it is once all of `content` is taken in. What a record tracks by now is not unclaimed."""
    if not content.lines and not state.unclaimed:
        return state
    found = ingest(content, state.records, state.open_intents, last_serial, now)
    known = tracked(found.records.values())
    return replace(
        state,
        records=found.records,
        open_intents=tuple(found.view.open_intents.values()),
        spooled=frozenset(found.scopes),
        unclaimed=tuple(
            entry
            for entry in (*state.unclaimed, *found.notes)
            if entry.data.get("unclaimed", "") not in {"", *known}
        ),
    )


def tracked(records: Iterable[StateRecord]) -> frozenset[str]:
    """All ids that records name: their objects' own, and those of objects kept with them."""
    return frozenset(
        id for record in records for id in (record.id, *record.applied.values()) if isinstance(id, str)
    )


def _applies(kept: Kept, found: Ingestion) -> bool:
    open_still = all(key in found.view.open_intents for key in _keys(kept.entries))
    return open_still and all(
        record.address in kept.remove
        or record.serial == (found.records[record.address].serial if record.address in found.records else 0)
        for record, _ in kept.put
    )


def _scopes(kept: Kept, found: Ingestion) -> set[str]:
    """Of the records and intents that it is about; all that its lease covered, if those do not tell."""
    scopes = {record.scope for record, _ in kept.put}
    scopes |= {found.records[address].scope for address in kept.remove if address in found.records}
    scopes |= {
        found.view.open_intents[key].data["scope"]
        for key in _keys(kept.entries)
        if "scope" in found.view.open_intents[key].data
    }
    return scopes or set(kept.epochs)


def _apply(kept: Kept, found: Ingestion, last_serial: int) -> int:
    for entry in _decoded(kept):
        found.view = rules.after(found.view, rules.effect(entry), entry)
    for address in kept.remove:
        found.records.pop(address, None)
    for record, _ in kept.put:
        last_serial += 1
        found.records[record.address] = replace(record, serial=last_serial)
    return last_serial


def _unclaimed(kept: Kept, known: Collection[str], now: datetime) -> Iterator[JournalEntry]:
    for entry in _decoded(kept):
        ids = [record.id for record, _ in kept.put if record.address == entry.address]
        for id in dict.fromkeys([*ids, entry.data.get("id")]):
            if id and id not in known:
                because = "its outcome came after the call was settled otherwise"
                data = {"unclaimed": id, "step": entry.step, "because": because}
                yield JournalEntry(entry.run, Event.DECIDED, now, entry.address, data=data)


def _decoded(kept: Kept) -> Iterator[JournalEntry]:
    for columns in kept.entries:
        yield decode_entry(*columns[:-1], columns[-1].encode())


def _keys(entries: Sequence[EntryColumns]) -> Iterator[IntentKey]:
    for run, _, _, _, step, attempt, _ in entries:
        if step:
            yield run, step, attempt
