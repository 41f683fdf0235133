"""What all scopes of a state amount to together."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from reconciler.core.model import Address, StateRecord
from reconciler.state.codec import EntryColumns, decode_entry
from reconciler.state.log.damage import Damaged
from reconciler.state.log.scope_state import ScopeSummary
from reconciler.state.log.scopes import Scopes
from reconciler.state.store import WHOLE_STATE, JournalEntry, State


def state_of(scopes: Scopes, lineage: str, names: Iterable[str]) -> State:
    """All that is known of these scopes. Raises Contradiction where one is read again at this moment."""
    records: dict[Address, StateRecord] = {}
    marks: dict[str, ScopeSummary] = {}
    for name in sorted(names):
        with scopes.reading(name) as scope:
            count = len(records) + len(scope.folded.records)
            records.update(scope.folded.records)
            marks[name] = scope.folded.marks
        if len(records) != count:
            raise Damaged(f"`{name}` and another scope have a record at one address")
    views = [summary.view for summary in marks.values()]
    claimed = {name: summary.claimed for name, summary in marks.items()}
    return State(
        lineage,
        records,
        _oldest_first(entry for view in views for entry in view.open_intents.values()),
        frozenset().union(*(summary.plans | summary.view.plans_run for summary in marks.values())),
        unclaimed=_oldest_first(
            entry
            for name, summary in marks.items()
            for id, entry in summary.view.unclaimed.items()
            if not any(id in ids for other, ids in claimed.items() if other != name)
        ),
        serials={name: summary.serial for name, summary in marks.items()},
        heads={name: summary.hash for name, summary in marks.items() if summary.seq},
        lengths={name: summary.seq for name, summary in marks.items()},
        version=_version(lineage, marks),
        platform=_platform(marks),
    )


def _platform(marks: Mapping[str, ScopeSummary]) -> str:
    """It is recorded in the scope of the whole state."""
    named = [
        summary.view.platform for summary in (marks.get(WHOLE_STATE), *marks.values()) if summary is not None
    ]
    return next(filter(None, named), "")


def _oldest_first(entries: Iterable[EntryColumns]) -> tuple[JournalEntry, ...]:
    return tuple(sorted(map(entry_of, entries), key=lambda entry: entry.at))


def entry_of(columns: EntryColumns) -> JournalEntry:
    """As `codec.decode_entry`. Raises Damaged."""
    try:
        return decode_entry(columns)
    except ValueError as error:
        raise Damaged("a row of the journal holds what was never written there") from error


def _version(lineage: str, marks: Mapping[str, ScopeSummary]) -> str:
    known = [
        (name, summary.changes, summary.hash, f"{summary.sum:x}") for name, summary in sorted(marks.items())
    ]
    return hashlib.sha256(json.dumps([lineage, known]).encode()).hexdigest()
