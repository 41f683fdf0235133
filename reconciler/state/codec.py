"""Records and journal entries as JSON text, and back, exactly.

Written by hand: a plan reads every record, and a hundred thousand must not cost seconds.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal

from pydantic_core import from_json

from reconciler.core.model import Address, Deletion, Lifecycle, Obligation, StateRecord
from reconciler.state.store import Event, JournalEntry

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().decode

# run, event, at, address, step, attempt, data: the journal's columns
EntryColumns = tuple[str, str, str, str | None, str, int, str]
RowColumns = tuple[str, str, str, str | None, str, int, bytes]  # as a backend keeps them


def encode_record(record: StateRecord) -> str:
    """All of `record` but its address and serial. Raises TypeError or ValueError when it is not JSON."""
    return _encode(
        {
            "id": record.id,
            "scope": record.scope,
            "applied": record.applied,
            "lifecycle": {
                "deletion": record.lifecycle.deletion,
                "snapshot_before": record.lifecycle.snapshot_before,
                "timeout_s": record.lifecycle.timeout_s,
                "restart": record.lifecycle.restart,
            },
            "created_at": record.created_at.isoformat(),
            "source": record.source,
            "obligations": [
                {
                    "work": owed.work,
                    "because": owed.because,
                    "certainty": owed.certainty,
                    "since": owed.since.isoformat(),
                }
                for owed in record.obligations
            ],
            "inferred": record.inferred,
        }
    )


def decode_record(address: Address, serial: int, body: bytes) -> StateRecord:
    """The inverse of `encode_record`. Raises ValueError, KeyError or TypeError for another `body`."""
    fields = _fields(body)
    lifecycle = fields["lifecycle"]
    obligations: Sequence[dict[str, Any]] = fields["obligations"]
    return StateRecord(
        address,
        fields["id"],
        fields["scope"],
        fields["applied"],
        _lifecycle(
            lifecycle["deletion"],
            tuple(lifecycle["snapshot_before"]),
            lifecycle["timeout_s"],
            lifecycle.get("restart", "ask"),  # records of earlier versions hold none
        ),
        datetime.fromisoformat(fields["created_at"]),
        fields["source"],
        tuple(
            Obligation(
                owed["work"], owed["because"], owed["certainty"], datetime.fromisoformat(owed["since"])
            )
            for owed in obligations
        ),
        fields["inferred"],
        serial,
    )


def _fields(body: bytes) -> Any:
    """The JSON of `body`. Names and short texts that many records hold are one object."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:  # text that is not Unicode, such as that of a file's name, is read more slowly
        return _decode(body.decode())


@cache
def _lifecycle(
    deletion: str, snapshot_before: tuple[Any, ...], timeout_s: int, restart: Literal["ask", "auto"]
) -> Lifecycle:
    """One object for the many records that are treated alike."""
    return Lifecycle(Deletion(deletion), snapshot_before, timeout_s, restart)


def encode_entry(entry: JournalEntry) -> EntryColumns:
    """The columns of `entry`. Raises TypeError or ValueError when its data is not JSON."""
    return (
        entry.run,
        str(entry.event),
        entry.at.isoformat(),
        None if entry.address is None else str(entry.address),
        entry.step,
        entry.attempt,
        _encode(entry.data),
    )


def decode_entry(
    run: str, event: str, at: str, address: str | None, step: str, attempt: int, data: bytes
) -> JournalEntry:
    """The inverse of `encode_entry`. Raises ValueError when a column holds something else."""
    return JournalEntry(
        run,
        Event(event),
        datetime.fromisoformat(at),
        None if address is None else Address.parse(address),
        step,
        attempt,
        json.loads(data),
    )
