"""Changes: what one commit does to a scope, as one line of JSON. They are numbered from 1, without a gap."""

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.json import Decoder, encode

from reconciler.core.model import Address
from reconciler.state.codec import EntryColumns

SUM_BITS = 256
_StoredJson = tuple[str, str, str | None, int, int, str]  # kind, name, app, ordinal, serial, body
_RowJson = tuple[str, str, str, str | None, str, int, str, str]  # `EntryColumns`, and the hash


class Row(Struct, frozen=True):
    """An encoded journal entry, and its hash in the scope's chain."""

    columns: EntryColumns
    hash: str


class StoredRecord(Struct, frozen=True):
    """A record as it is kept. `body`: what `codec.encode_record` makes of it."""

    address: Address
    serial: int
    body: str

    @property
    def digest(self) -> int:
        """Part of the sum in the scope's head."""
        kind, name, app, ordinal = self.address
        text = f"{kind}\n{app or ''}\n{name}\n{ordinal}\n{self.serial}\n{self.body}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest())

    def to_json(self) -> _StoredJson:
        """The record as it stands in a line or a base."""
        return (*self.address, self.serial, self.body)

    @classmethod
    def from_json(cls, values: _StoredJson) -> "StoredRecord":
        """The inverse of `to_json`."""
        kind, name, app, ordinal, serial, body = values
        return cls(Address(kind, name, app, ordinal), serial, body)


def sum_of(stored: Iterable[StoredRecord]) -> int:
    """The sum of the digests, as a scope's head has it."""
    return sum(record.digest for record in stored) % (1 << SUM_BITS)


class _Line(Struct):
    """A change as it is written."""

    number: int
    id: str
    rows: list[_RowJson]
    put: list[_StoredJson]
    remove: list[Address]


decode_stored = Decoder(list[_StoredJson]).decode
_decode_line = Decoder(_Line).decode


class Change(Struct, frozen=True):
    """`id`: tells it from another one with its number that was written, too, and never landed."""

    number: int
    id: str
    rows: Sequence[Row] = ()
    put: Sequence[StoredRecord] = ()
    remove: Sequence[Address] = ()

    def to_line(self) -> str:
        """The change as one line of JSON, which stands in a head or a segment."""
        line = _Line(
            self.number,
            self.id,
            [(*row.columns, row.hash) for row in self.rows],
            [stored.to_json() for stored in self.put],
            list(self.remove),
        )
        return encode(line).decode()

    @classmethod
    def from_line(cls, line: str) -> "Change":
        """Raises ValueError for another `line`."""
        fields = _decode_line(line)
        return cls(
            fields.number,
            fields.id,
            [Row(row[:-1], row[-1]) for row in fields.rows],
            [StoredRecord.from_json(values) for values in fields.put],
            fields.remove,
        )
