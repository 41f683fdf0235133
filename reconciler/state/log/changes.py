"""Changes: what one commit does to a scope, as one line of JSON. They are numbered from 1, without a gap."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.model import Address
from reconciler.state.codec import EntryColumns

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Row(Struct, frozen=True):
    """An encoded journal entry, and its hash in the scope's chain."""

    columns: EntryColumns
    hash: str


class Stored(Struct, frozen=True):
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

    def to_json(self) -> list[Any]:
        return [*self.address, self.serial, self.body]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> "Stored":
        kind, name, app, ordinal, serial, body = values
        return cls(Address(kind, name, app, ordinal), serial, body)


class Change(Struct, frozen=True):
    """`id`: tells it from another one with its number that was written, too, and never landed."""

    number: int
    id: str
    rows: Sequence[Row] = ()
    put: Sequence[Stored] = ()
    remove: Sequence[Address] = ()

    def to_line(self) -> str:
        return _encode(
            {
                "number": self.number,
                "id": self.id,
                "rows": [[*row.columns, row.hash] for row in self.rows],
                "put": [stored.to_json() for stored in self.put],
                "remove": [list(address) for address in self.remove],
            }
        )

    @classmethod
    def from_line(cls, line: str) -> "Change":
        """Raises ValueError, KeyError or TypeError for another `line`."""
        fields = json.loads(line)
        return cls(
            fields["number"],
            fields["id"],
            [Row(tuple(row[:-1]), row[-1]) for row in fields["rows"]],
            [Stored.from_json(values) for values in fields["put"]],
            [Address(*values) for values in fields["remove"]],
        )
