"""The answers that a run read right before its first call, for the journal: enough to replay it, and bounded.

Of an answer, only the fields that wire models declare are kept: a field that the platform adds may be a
secret. Of a sensitive answer, only the fact that it was read is kept. Nothing is compressed, so that a search
of the state for a value finds it. An object that several answers contain is kept once, by its digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel

from reconciler.core.model import Address, Observation, StateRecord
from reconciler.core.steps import Read
from reconciler.secrets.redaction import redact
from reconciler.state.codec import decode_record, encode_record

MOST_BYTES = 500_000  # of JSON, or somewhat more: some thousand objects
_OF_A_DIGEST = 22  # bytes
_DIGITS = 16
FINGERPRINT = "fingerprint"  # of a record's secret, in what was applied


def observed_data(
    observed: Mapping[Read, Observation],
    records: Iterable[StateRecord] = (),
    about: Iterable[Address] = (),
) -> dict[str, Any]:
    """JSON for the journal.

    `reads`: every read with the digests of its objects. `objects`: by digest. `about`: the addresses.
    `records`: by address, without fingerprints of secrets. `left_out`: how many answers, objects and records
    did not fit; such a run cannot be replayed.
    """
    objects: dict[str, Any] = {}
    reads: list[dict[str, Any]] = []
    room, left_out = MOST_BYTES, 0
    for read, observation in observed.items():
        found = _read(read, observation)
        room -= len(json.dumps(found))
        if room < 0:
            left_out += 1
            continue
        reads.append(found)
        for item in () if read.sensitive else observation.objects:
            fields = redact(_declared(item))
            text = json.dumps(fields, sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            size = _OF_A_DIGEST + (_OF_A_DIGEST + len(text) if digest not in objects else 0)
            if size > room:
                left_out += 1
                continue
            room -= size
            objects[digest] = fields
            found["objects"].append(digest)
    found_records: dict[str, Any] = {}
    for record in records:
        kept = _record(record)
        room -= len(json.dumps(kept))
        if room < 0:
            left_out += 1
            continue
        found_records[str(record.address)] = kept
    return {
        "reads": reads,
        "objects": objects,
        "about": sorted(map(str, about)),
        "records": found_records,
        **({"left_out": left_out} if left_out else {}),
    }


def read_records(records: Mapping[str, Any]) -> dict[Address, StateRecord]:
    """The `records` of `observed_data`. Raises ValueError, KeyError or TypeError where one is none."""
    found = {}
    for text, fields in records.items():
        address = Address.parse(text)
        found[address] = decode_record(address, fields["serial"], json.dumps(fields).encode())
    return found


def _record(record: StateRecord) -> dict[str, Any]:
    """JSON of a record, without the fingerprint of a secret."""
    applied = {name: value for name, value in record.applied.items() if name != FINGERPRINT}
    fields: dict[str, Any] = json.loads(encode_record(replace(record, applied=applied)))
    return {"serial": record.serial, **fields}


def _read(read: Read, observation: Observation) -> dict[str, Any]:
    """JSON of a read; `complete` and `withheld` only if they are not as usual."""
    found: dict[str, Any] = {
        "path": str(read.path),
        "shape": str(read.shape),
        "service": read.service,
        "at": observation.at.isoformat(),
        "objects": [],
    }
    found |= {} if observation.complete else {"complete": False}
    return found | ({"withheld": len(observation.objects)} if read.sensitive else {})


def _declared(value: Any) -> Any:
    """JSON of the declared fields that were in the answer; of a mapping without a model, nothing."""
    if isinstance(value, BaseModel):
        names = [name for name in type(value).model_fields if name in value.model_fields_set]
        return {name: _declared(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_declared(item) for item in value]
    return value if isinstance(value, str | int) else None  # no model has a float, which may be no number
