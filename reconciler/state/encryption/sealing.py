"""Journal entries and records, sealed and opened. Pure.

`place`: the epoch of the lease that they were written under, and a number that comes once in that lease. It
is part of what each is bound to, so that a copy of one, put where another belongs, is noticed (`Order`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from reconciler.core.model import LONG_AGO, Address, Lifecycle, StateRecord
from reconciler.state import rules
from reconciler.state.codec import decode_entry, decode_record, encode_entry
from reconciler.state.encryption.cipher import Cipher, NotOurs
from reconciler.state.store import Event, JournalEntry

Place = tuple[int, int, int]  # epoch, commit in it, entry in that


class Opened(Struct, frozen=True):
    """An entry, and its data as they were encoded. `place`: None for what a backend itself has noted.

    `about`: the records that were put or removed together with it.
    """

    entry: JournalEntry
    text: str
    scope: str = ""
    place: Place | None = None
    about: Sequence[Address] = ()


def seal_entry(
    cipher: Cipher, entry: JournalEntry, text: str, scope: str, place: Place, about: Sequence[Address] = ()
) -> JournalEntry:
    """`text`: the data of `entry`, encoded."""
    shown = {
        "enc": cipher.seal(text, "entry", scope, place, _columns(entry), list(map(str, about))),
        "in": cipher.token(scope),
        "place": place,
        **({"about": [cipher.address(each).name for each in about]} if about else {}),
        **_hints(cipher, entry),
    }
    address = None if entry.address is None else cipher.address(entry.address)
    run, step = cipher.token(entry.run), cipher.token(entry.step)
    return JournalEntry(run, entry.event, entry.at, address, step, entry.attempt, shown)


def open_entry(cipher: Cipher, sealed: JournalEntry) -> Opened:
    """Raises NotOurs."""
    shown = sealed.data
    if "enc" not in shown:
        return _noted(cipher, sealed)
    try:
        scope, (epoch, commit, number) = cipher.name(shown["in"]), shown["place"]
        about = [Address.parse(cipher.name(token)) for token in shown.get("about", ())]
        address = None if sealed.address is None else cipher.plain_address(sealed.address)
        run, step = cipher.name(sealed.run), cipher.name(sealed.step)
        bare = JournalEntry(run, sealed.event, sealed.at, address, step, sealed.attempt)
        place = epoch, commit, number
        text = cipher.open(shown["enc"], "entry", scope, place, _columns(bare), list(map(str, about)))
        columns = encode_entry(bare)
        entry = decode_entry(*columns[:-1], text.encode())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NotOurs("a journal entry") from None
    if _hints(cipher, entry) != {
        name: shown[name] for name in shown.keys() & {"plan", "approvals", *rules.DECISIONS}
    }:
        raise NotOurs("a journal entry")
    return Opened(entry, text, scope, place, about)


def seal_record(cipher: Cipher, record: StateRecord, text: str, place: Place) -> StateRecord:
    """`text`: the record, encoded."""
    body = {"enc": cipher.seal(text, "record", str(record.address), place), "place": place}
    return StateRecord(
        cipher.address(record.address),
        cipher.token(record.id),
        cipher.token(record.scope),
        body,
        Lifecycle(),
        LONG_AGO,
        "",
        serial=record.serial,
    )


def open_record(cipher: Cipher, sealed: StateRecord) -> tuple[StateRecord, str, Place]:
    """The record, as it was encoded, and its place. Raises NotOurs."""
    try:
        address = cipher.plain_address(sealed.address)
        epoch, commit, number = sealed.applied["place"]
        place = epoch, commit, number
        text = cipher.open(sealed.applied["enc"], "record", str(address), place)
        record = decode_record(address, sealed.serial, text.encode())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NotOurs("a record") from None
    if (cipher.token(record.id), cipher.token(record.scope)) != (sealed.id, sealed.scope):
        raise NotOurs("a record")
    return record, text, place


@dataclass(slots=True)
class Order:
    """Follows the journal, oldest first, and finds what was put there again, or where it does not belong."""

    newest: dict[str, int] = field(default_factory=dict)  # the epoch of the newest entry, by scope
    seen: set[tuple[str, Place]] = field(default_factory=set)
    changed: dict[tuple[str, Address], Place] = field(default_factory=dict)

    def follow(self, scope: str, opened: Opened) -> None:
        """`scope`: in whose chain it stands. Raises NotOurs."""
        if opened.place is None:
            return
        key, epoch = (scope, opened.place), opened.place[0]
        if opened.scope != scope or key in self.seen or epoch < self.newest.get(scope, 0):
            raise NotOurs("a journal entry")
        self.seen.add(key)
        self.newest[scope] = epoch
        self.changed |= {(scope, address): opened.place for address in opened.about}

    def require(self, record: StateRecord, place: Place) -> None:
        """Raises NotOurs for a record from before a change that the journal tells of."""
        if place[:2] < self.changed.get((record.scope, record.address), (0, 0, 0))[:2]:
            raise NotOurs("a record")


def _columns(entry: JournalEntry) -> list[object]:
    run, event, at, address, step, attempt, _ = encode_entry(
        JournalEntry(entry.run, entry.event, entry.at, entry.address, entry.step, entry.attempt)
    )
    return [run, event, at, address, step, attempt]


def _hints(cipher: Cipher, entry: JournalEntry) -> Mapping[str, Any]:
    """What the backend must know of the data, to tell open intents and the like (`rules.effect`)."""
    if entry.event is Event.RUN_STARTED and entry.data.get("plan"):
        used = [{"id": cipher.token(each["id"])} for each in entry.data.get("approvals", ())]
        return {"plan": cipher.token(str(entry.data["plan"])), **({"approvals": used} if used else {})}
    if entry.event is Event.DECIDED:
        named = {name: entry.data[name] for name in rules.DECISIONS if entry.data.get(name)}
        return {name: _hint(cipher, name, value) for name, value in named.items()}
    return {}


def _hint(cipher: Cipher, name: str, value: Any) -> Any:
    if name in ("moved_from", "moved_away"):
        return str(cipher.address(Address.parse(value)))
    return cipher.token(str(value))


def _noted(cipher: Cipher, entry: JournalEntry) -> Opened:
    """What a backend writes itself, such as who broke a lock: plain, with tokens, and without effect."""
    if entry.event is not Event.DECIDED or rules.effect(entry) != rules.Effect():
        raise NotOurs("a journal entry")
    data = {name: cipher.revealed(v) if isinstance(v, str) else v for name, v in entry.data.items()}
    return Opened(JournalEntry("", entry.event, entry.at, data=data), json.dumps(data, separators=(",", ":")))
