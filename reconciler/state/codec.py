"""Records and journal entries as JSON text, and back, exactly.

Written by hand: a plan reads every record, and a hundred thousand must not cost seconds.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from msgspec import MsgspecError, Raw, Struct, convert
from msgspec.json import Decoder
from msgspec.structs import asdict
from pydantic_core import from_json

from reconciler.core.model import Address, Lifecycle, Obligation, StateRecord
from reconciler.state.store import Event, JournalEntry

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().decode

# run, event, at, address, step, attempt, data: the journal's columns
EntryColumns = tuple[str, str, str, str | None, str, int, str]


def encode_record(record: StateRecord) -> str:
    """All of `record` but its address and serial. Raises TypeError or ValueError when it is not JSON."""
    return _encode(
        {
            "id": record.id,
            "scope": record.scope,
            "applied": record.applied,
            "lifecycle": {
                name: value for name, value in asdict(record.lifecycle).items() if value is not None
            },
            "created_at": record.created_at.isoformat(),
            "source": record.source,
            "obligations": [asdict(owed) | {"since": owed.since.isoformat()} for owed in record.obligations],
            "inferred": record.inferred,
        }
    )


class _Body(Struct):
    """A record as `encode_record` writes it. What many have alike stays JSON, and is read once for all."""

    id: str
    scope: str
    applied: Raw
    lifecycle: Raw
    created_at: str
    source: str
    obligations: Raw
    inferred: bool


_decode_body = Decoder(_Body).decode


def decode_record(address: Address, serial: int, body: bytes) -> StateRecord:
    """The inverse of `encode_record`. Raises ValueError, KeyError or TypeError for another `body`.

    Records that hold the same share it: nobody changes `applied`.
    """
    try:
        found = _decode_body(body)
    except MsgspecError:  # text that is not Unicode, such as that of a file's name, is read more slowly
        fields = _json(body)
        raw = {name: Raw(_encode(fields[name])) for name in ("applied", "lifecycle", "obligations")}
        found = _Body(**{name: fields[name] for name in _Body.__struct_fields__} | raw)
    return StateRecord(
        address,
        found.id,
        intern(found.scope),
        _applied(bytes(found.applied)),
        _lifecycle(bytes(found.lifecycle)),
        datetime.fromisoformat(found.created_at),
        intern(found.source),
        _obligations(bytes(found.obligations)),
        found.inferred,
        serial,
    )


def _json(text: bytes | str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:  # see `decode_record`
        return _decode(text if isinstance(text, str) else text.decode())


@lru_cache(10_000)
def _applied(text: bytes) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _json(text)
    return found


@lru_cache(1000)
def _lifecycle(text: bytes) -> Lifecycle:
    return convert(_json(text), Lifecycle)  # records of earlier versions lack some of it


@lru_cache(1000)
def _obligations(text: bytes) -> tuple[Obligation, ...]:
    return convert(_json(text), tuple[Obligation, ...])


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


def decode_entry(columns: EntryColumns) -> JournalEntry:
    """The inverse of `encode_entry`. Raises ValueError when a column holds something else."""
    run, event, at, address, step, attempt, data = columns
    return JournalEntry(
        run,
        Event(event),
        datetime.fromisoformat(at),
        None if address is None else Address.parse(address),
        step,
        attempt,
        _json(data),
    )
