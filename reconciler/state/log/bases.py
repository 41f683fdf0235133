"""A base: what all changes of a scope up to one amount to, so that a reader need not read them."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec.json import encode as encode_json

from reconciler.state.codec import decode_entry, decode_record, encode_entry
from reconciler.state.log.changes import StoredRecord, decode_stored, sum_of
from reconciler.state.log.damage import Damaged
from reconciler.state.log.scope_state import PendingMoves, ScopeState, ScopeSummary
from reconciler.state.rules import View
from reconciler.state.store import JournalEntry


def encode(folded: ScopeState) -> str:
    """Two lines: the marks, the records. The same scope always gives the same text."""
    marks, view, departures = folded.marks, folded.marks.view, folded.marks.departures
    first = {
        "hash": marks.hash,
        "changes": marks.changes,
        "seq": marks.seq,
        "serial": marks.serial,
        "sum": f"{marks.sum:x}",
        "open_intents": [encode_entry(entry) for entry in view.open_intents.values()],
        "plans_run": sorted(marks.plans | view.plans_run),
        "unclaimed": [encode_entry(entry) for entry in view.unclaimed.values()],
        "platform": view.platform,
        "arrived": {
            source: [times, encode_entry(entry)] for source, (times, entry) in departures.arrived.items()
        },
        "left": departures.left,
        "claimed": sorted(marks.claimed),
    }
    records = sorted((stored.to_json() for stored in folded.stored.values()), key=lambda each: str(each[:4]))
    return f"{json.dumps(first)}\n{encode_json(records).decode()}\n"


def decode(text: str, scope: str) -> ScopeState:
    """Raises Damaged for another text."""
    try:
        first, second, _ = text.split("\n")
        fields, records = json.loads(first), decode_stored(second)
        stored = [StoredRecord.from_json(values) for values in records]
        marks = ScopeSummary(
            fields["hash"],
            fields["changes"],
            fields["seq"],
            fields["serial"],
            len(stored),
            # The head authenticates the file. One that version 0.2.0 wrote does not hold the sum.
            int(fields["sum"], 16) if "sum" in fields else sum_of(stored),
            _view(fields),
            PendingMoves(
                {source: (times, _entry(row)) for source, (times, row) in fields["arrived"].items()},
                fields["left"],
            ),
            frozenset(fields["claimed"]),
            frozenset(fields["plans_run"]),
        )
        decoded = {
            each.address: decode_record(each.address, each.serial, each.body.encode()) for each in stored
        }
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the records of `{scope}` are not what was written") from error
    return ScopeState(marks, {each.address: each for each in stored}, decoded)


def _view(fields: dict[str, Any]) -> View[JournalEntry]:
    intents = [_entry(row) for row in fields["open_intents"]]
    unclaimed = [_entry(row) for row in fields["unclaimed"]]
    return View(
        {(entry.run, entry.step, entry.attempt): entry for entry in intents},
        unclaimed={entry.data["unclaimed"]: entry for entry in unclaimed},
        platform=fields["platform"],
    )


def _entry(row: Sequence[Any]) -> JournalEntry:
    run, event, at, address, step, attempt, data = row
    return decode_entry(run, event, at, address, step, attempt, data.encode())
