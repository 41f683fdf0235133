"""What is written when records get other addresses: the same for a Moved manifest and for `state mv`."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from reconciler.core.attribution import UNATTRIBUTED, Attribution
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import Move
from reconciler.kinds import find_kinds
from reconciler.moves.records import carried_out
from reconciler.state.store import Event, JournalEntry


def moved_records(
    moves: Sequence[Move], records: Mapping[Address, StateRecord]
) -> tuple[dict[Address, StateRecord], list[Address]]:
    """What to put (new where it moved, changed where it names what moved), and what to remove."""
    if not moves:
        return {}, []
    gone = [move.source for move in moves]
    targets = {move.target for move in moves}
    after = carried_out(find_kinds(), moves, records)
    put = {
        address: replace(record, serial=0) if address in targets else record
        for address, record in after.items()
        if record is not records.get(address)
    }
    return put, gone


def moved_entry(move: Move, run: str, at: datetime, by: Attribution = UNATTRIBUTED) -> JournalEntry:
    """`by`: whose decision it was; where a run moves, its beginning says so."""
    data = {"from": str(move.source), "to": str(move.target), "id": move.id, **by.to_json()}
    return JournalEntry(run, Event.DECIDED, at, move.source, data=data)
