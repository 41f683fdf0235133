"""The journal's entry about a call before it is sent: enough to settle it after a crash, but no secret.

If the outcome stays unknown, there are three ways on. "repeat": the call is absolute, so sending it again
does no harm. "find": a list shows whether it made an object. "ask": only a person can know.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Literal

from msgspec import field, to_builtins
from msgspec.structs import asdict, replace
from pydantic import TypeAdapter

from reconciler.core.model import DELETION_SENT, Address, Lifecycle, StateRecord
from reconciler.core.saved import Saved
from reconciler.core.steps import PLATFORM, Read
from reconciler.kinds import find_kinds


class Intent(Saved, frozen=True):
    """One call that is about to be sent to `service`.

    `baseline`: ids of equal objects that the list at `find` showed before. `creates`: success brings a new
    object, whose record gets `applied`, `scope`, `lifecycle` and `source`. `owes`: why a restart may be owed.
    `own_id`: the id that the call gives its object (see `Repeat.own_id`). `one`: see `Find`. `service_at`:
    the service's time at the sending; None if no answer had one. `holder`: the holder of the lease; "" if an
    older program wrote the intent. `uses`: of budgets (`core.uses`), empty if an older program wrote it.
    """

    method: str
    path: str
    if_unknown: Literal["repeat", "find", "ask"]
    creates: bool
    applied: Mapping[str, Any]
    scope: str
    lifecycle: Lifecycle
    source: str
    find: Read | None = None
    match: Mapping[str, Any] | None = None
    unattached: tuple[str, ...] = ()
    grows: tuple[str, ...] = ()
    keep: str = ""
    baseline: tuple[str, ...] = ()
    owes: str = ""
    service: str = PLATFORM
    own_id: str = ""
    one: Read | None = None
    service_at: datetime | None = None
    holder: str = ""
    uses: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON for the journal; `from_json` reads it."""
        return asdict(self) | {
            "lifecycle": asdict(self.lifecycle),
            "find": _read_json(self.find),
            "one": _read_json(self.one),
            "service_at": self.service_at.isoformat() if self.service_at is not None else None,
        }

    def record(self, address: Address, id: str, created_at: datetime, *, inferred: bool) -> StateRecord:
        """A new record of the object that this call made."""
        return StateRecord(
            address,
            id,
            self.scope,
            self.applied,
            self.lifecycle,
            created_at,
            self.source,
            inferred=inferred,
        )

    def settled_record(
        self, address: Address, record: StateRecord | None, id: str, sent_at: datetime
    ) -> StateRecord | None:
        """The record after evidence or a person says that the call made `id`; None: nothing to record."""
        if self.creates:
            made = self.record(address, id, sent_at, inferred=True)
            return made if record is None else replace(made, serial=record.serial)
        if self.keep and record is not None:
            return replace(record, applied={**record.applied, self.keep: id})
        return None

    def in_doubt(self, address: Address, record: StateRecord | None, sent_at: datetime) -> StateRecord | None:
        """The record while the outcome of this call is unknown; None: no record.

        The record says that a deletion was sent: if the object is missing later, we deleted it.
        """
        if record is None:
            return self.record(address, self.own_id, sent_at, inferred=False) if self.own_id else None
        doubted = self.doubted(record)
        if self.method == "DELETE":
            return replace(doubted, applied={**doubted.applied, DELETION_SENT: True})
        return doubted

    def doubted(self, record: StateRecord) -> StateRecord:
        """`record` without the values that this lost call may have replaced on the platform.

        A secret cannot be read back, so a record with the old value would hide the change forever.
        """
        kept = {
            name: value
            for name, value in record.applied.items()
            if self.applied.get(name) is None or self.applied[name] == value
        }
        return replace(record, applied=kept)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Intent":
        """The intent that `to_json` wrote, also by an older program."""
        find_kinds()  # their models have the shapes that reads name
        return _adapter().validate_python(data)


def _read_json(read: Read | None) -> dict[str, Any] | None:
    """JSON of a read; its shape is stored by name."""
    if read is None:
        return None
    return asdict(read) | {"path": to_builtins(read.path), "shape": str(read.shape)}


@cache
def _adapter() -> TypeAdapter[Intent]:
    return TypeAdapter(Intent)
