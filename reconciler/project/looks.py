"""Looks: what was seen of each object, and when. "Since when", trends and forecasts stand on them.

They are notes of the state (`execution.decisions`), written by `apply`, by the controller and by `inventory
--record`. Every plan loads them, so the looks at one object are one packed text, which is read only when
somebody asks for this object: `{"Volume/vol_1": [NEWEST, TEXT, HELD]}`, with the minute and the last value
of the newest row. Objects share a few notes, so that an apply writes only some. Times are those of the
platform, to the minute; amounts of data are kept to the MiB.

An object has one look for each six hours, of the last 30 days; one for each day before; none that is older
than 400 days. Of several, the newest stays, and that a machine held it in one of them. Days and quarters of
a day are those of UTC.
"""

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from operator import sub
from typing import Any

import msgspec

from reconciler.core.model import Observation
from reconciler.core.steps import Read
from reconciler.execution.decisions import Content, Renewal, recall, remember_all
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import HoldsData, Look
from reconciler.project.project import Project
from reconciler.state.store import State

Seen = dict[str, Look]  # by "KIND/ID"

_NOTES = 256
_FINE, _DAY = 6 * 60, 24 * 60  # all of these in minutes
_FINE_KEPT, _KEPT = 30 * _DAY, 400 * _DAY
_MIB = 2**20


def recorded_looks(state: State, kind: str, id: str) -> Sequence[Look]:
    """The looks at an object, oldest first."""
    entry = recall(state, _note(f"{kind}/{id}")).get(f"{kind}/{id}")
    return tuple(map(_look, _unpack(entry[1]))) if entry is not None else ()


async def record_looks(project: Project, seen: Seen) -> None:
    """Keep the looks that were `seen`, where there is a state.

    Writes nothing where each object has a look in these six hours. Raises as `remember`.
    """
    state = await project.store.load()
    if state.lineage:
        await remember_all(project.store, project.actor(), notes_of(seen), known=state)


def notes_of(seen: Seen) -> Mapping[str, Renewal]:
    """What becomes of the notes."""
    looks: dict[str, Seen] = {}
    for key, look in seen.items():
        looks.setdefault(_note(key), {})[key] = look
    return {note: partial(_with, of_note) for note, of_note in looks.items()}


def see(seen: Seen, read: Read, observation: Observation) -> None:
    """Add a look at each object of an answer to `seen`."""
    if observation.complete:
        seen |= looks_at(observation.objects, observation.at)


def looks_at(items: Iterable[Any], at: datetime) -> Seen:
    """A look at each object that takes space, is present and has a valid id."""
    kinds = {role.model: name for name, kind in find_kinds().items() if (role := kind.role(HoldsData))}
    return {
        f"{kinds[type(item)]}/{item.id}": Look.of(item, at)
        for item in items
        if type(item) in kinds and item.present and not item.bad_id
    }


def _note(key: str) -> str:
    """The name of the note that has the looks at an object."""
    return f"looks:{zlib.crc32(key.encode()) % _NOTES:02x}"


# --- what is kept ---

Row = tuple[int, ...]  # minutes since 1970, then GB, MiB, MiB and 0 or 1; -1: not known
_UNITS = (1, _MIB, _MIB, 1)


def _with(looks: Seen, before: Content) -> Content:
    """The note with these looks; itself where all that they say of these six hours is there."""
    rows = {key: _row(look) for key, look in looks.items()}
    now = max(row[0] for row in rows.values())
    due = {key: row for key, row in rows.items() if key not in before or _is_new(row, *before[key])}
    if not due:
        return before
    after = {key: entry for key, entry in before.items() if now - entry[0] <= _KEPT}
    for key, row in due.items():
        kept = fold((*(_unpack(after[key][1]) if key in after else ()), row), now)
        after[key] = [row[0], _pack(kept), kept[-1][-1]]
    return after


def _is_new(row: Row, newest: int, text: str, held: int) -> bool:
    return newest // _FINE != row[0] // _FINE or row[-1] > held


def fold(rows: Iterable[Row], now: int) -> Sequence[Row]:
    """The rows that stay, oldest first. Those after `now` are of a clock that was wrong, and go.

    One that stays for others says whether a machine held the object in any of them.
    """
    newest: dict[tuple[int, int], Row] = {}
    for row in sorted(rows):
        age = now - row[0]
        if 0 <= age <= _KEPT:
            length = _FINE if age <= _FINE_KEPT else _DAY
            period = length, row[0] // length
            newest[period] = (*row[:-1], max(row[-1], newest.get(period, row)[-1]))
    return list(newest.values())


def _row(look: Look) -> Row:
    amounts = zip((look.size_gb, look.used_bytes, look.total_bytes, look.attached), _UNITS, strict=True)
    seen = (-1 if amount is None else round(amount / unit) for amount, unit in amounts)
    return (int(look.at.timestamp()) // 60, *seen)


def _look(row: Row) -> Look:
    amounts = zip(row[1:], _UNITS, strict=True)
    size, used, total, held = (None if amount < 0 else amount * unit for amount, unit in amounts)
    at = datetime.fromtimestamp(row[0] * 60, UTC)
    return Look(at, size, used, total, None if held is None else bool(held))


def _pack(rows: Sequence[Row]) -> str:
    """The rows as short text: column by column, each value as its difference from the one before."""
    columns = [[column[0], *map(sub, column[1:], column)] for column in zip(*rows, strict=True)]
    return base64.b64encode(zlib.compress(msgspec.json.encode(columns))).decode()


def _unpack(text: str) -> Sequence[Row]:
    columns = msgspec.json.decode(zlib.decompress(base64.b64decode(text)), type=list[list[int]])
    return list(zip(*map(accumulate, columns), strict=True))
