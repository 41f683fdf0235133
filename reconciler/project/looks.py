"""Looks: what was seen of each object, and when. "Since when", trends and forecasts stand on them.

They are notes of the state, one for each scope (`execution.decisions`), written by `apply`, by the controller
and by `inventory --record`. Every plan loads them, so the looks at one object are one packed text, which is
read only when somebody asks for this object. Times are those of the platform, to the minute; amounts of
data are kept to the MiB.

An object has one look for each six hours, of the last 30 days; one for each day before; none that is older
than 400 days. Of several, the newest stays. Days and quarters of a day are those of UTC.
"""

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from operator import sub
from typing import Any
from urllib.parse import quote

import msgspec

from reconciler.core.model import Observation, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.execution.decisions import Content, Renewal, recall, remember_seen
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import Look, TakesSpace
from reconciler.project.project import Project
from reconciler.state.store import State

ObjectKey = tuple[str, str]  # kind, id on the platform
Seen = dict[str, dict[ObjectKey, Look]]  # by scope

_FINE, _DAY = 6 * 60, 24 * 60  # all of these in minutes
_FINE_KEPT, _KEPT = 30 * _DAY, 400 * _DAY
_MIB = 2**20


def recorded_looks(state: State, scope: str) -> Mapping[ObjectKey, tuple[Look, ...]]:
    """The looks at each object of `scope`, oldest first. Each is unpacked when it is asked for."""
    return _Packed(recall(state, _note(scope)))


class _Packed(Mapping[ObjectKey, tuple[Look, ...]]):
    """The looks in a note: `{"Volume/vol_1": [NEWEST, TEXT]}`; NEWEST in minutes since 1970."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def __getitem__(self, key: ObjectKey) -> tuple[Look, ...]:
        return tuple(map(_look, _unpack(self._content["/".join(key)][1])))

    def __iter__(self) -> Iterator[ObjectKey]:
        for name in self._content:
            kind, _, id = name.partition("/")
            yield kind, id

    def __len__(self) -> int:
        return len(self._content)


async def record_looks(project: Project, seen: Seen) -> None:
    """Add what was `seen` to the looks of its scopes, where there is a state.

    Writes nothing where each object has a look in these six hours. Raises as `remember`.
    """
    state = await project.store.load()
    if state.lineage:
        await remember_seen(project.store, project.actor(), notes_of(seen), state)


def notes_of(seen: Seen) -> Mapping[str, Renewal]:
    """What becomes of the notes."""
    return {_note(scope): partial(_with, looks) for scope, looks in seen.items() if looks}


def _note(scope: str) -> str:
    """The name of the note: a slash would be taken for an app's."""
    return f"looks:{quote(scope, safe='')}"


# --- what is seen ---


def watching(
    seen: Seen, project: Project, resources: Iterable[Resource], records: Iterable[StateRecord]
) -> Callable[[Read, Observation], None]:
    """What takes the answers of a plan, and adds a look at each object in them to `seen`."""
    scopes = _scopes(resources, records, project.capabilities)

    def take(read: Read, observation: Observation) -> None:
        if observation.complete and read in scopes:
            kind, scope = scopes[read]
            seen.setdefault(scope, {}).update(looks_at(kind, observation.objects, observation.at))

    return take


def looks_at(kind: Kind, items: Iterable[Any], at: datetime) -> Mapping[ObjectKey, Look]:
    """A look at each object of `kind` that is present and has a valid id; none for kinds without looks."""
    takes_space = kind.role(TakesSpace)
    if takes_space is None:
        return {}
    return {
        (kind.name, item.id): takes_space.look(item, at) for item in items if item.present and not item.bad_id
    }


def _scopes(
    resources: Iterable[Resource], records: Iterable[StateRecord], capabilities: frozenset[str]
) -> Mapping[Read, tuple[Kind, str]]:
    """The kind and scope of the objects in each answer. One list shows all objects of its app."""
    kinds = {name: kind for name, kind in find_kinds().items() if kind.role(TakesSpace) is not None}
    owners = [(each.address, each.id, each.scope) for each in records]
    owners += [
        (each.address, each.adopt_id or "", kinds[each.address.kind].scope(each.spec, each.address))
        for each in resources
        if each.address.kind in kinds
    ]
    known = {(at.kind, at.app or id): (at, id, scope) for at, id, scope in reversed(owners)}
    return {
        read: (kinds[at.kind], scope)
        for at, id, scope in known.values()
        if at.kind in kinds and (read := kinds[at.kind].read(at, id, capabilities)) is not None
    }


# --- what is kept ---

Row = tuple[int, int, int, int, int]  # minutes since 1970, then GB, MiB, MiB and 0 or 1; -1: not known


def _with(looks: Mapping[ObjectKey, Look], before: Content) -> Content:
    """The note with these looks; itself where it has a look at each object in these six hours."""
    rows = {"/".join(key): _row(look) for key, look in looks.items()}
    now = max(row[0] for row in rows.values())
    due = {
        name: row
        for name, row in rows.items()
        if name not in before or before[name][0] // _FINE != row[0] // _FINE
    }
    if not due:
        return before
    after = {name: entry for name, entry in before.items() if now - entry[0] <= _KEPT}
    for name, row in due.items():
        known = _unpack(after[name][1]) if name in after else ()
        after[name] = [row[0], _pack(fold((*known, row), now))]
    return after


def fold(rows: Iterable[Row], now: int) -> Sequence[Row]:
    """The rows that stay, oldest first. Those after `now` are of a clock that was wrong, and go."""
    newest: dict[tuple[int, int], Row] = {}
    for row in sorted(rows):
        age = now - row[0]
        if 0 <= age <= _KEPT:
            period = _FINE if age <= _FINE_KEPT else _DAY
            newest[period, row[0] // period] = row
    return list(newest.values())


def _row(look: Look) -> Row:
    return (
        int(look.at.timestamp()) // 60,
        -1 if look.size_gb is None else look.size_gb,
        -1 if look.used_bytes is None else round(look.used_bytes / _MIB),
        -1 if look.total_bytes is None else round(look.total_bytes / _MIB),
        -1 if look.attached is None else int(look.attached),
    )


def _look(row: Row) -> Look:
    minute, size_gb, used, total, attached = row
    return Look(
        datetime.fromtimestamp(minute * 60, UTC),
        None if size_gb < 0 else size_gb,
        None if used < 0 else used * _MIB,
        None if total < 0 else total * _MIB,
        None if attached < 0 else bool(attached),
    )


def _pack(rows: Sequence[Row]) -> str:
    """The rows as short text: column by column, each value as its difference from the one before."""
    columns = [[column[0], *map(sub, column[1:], column)] for column in zip(*rows, strict=True)]
    return base64.b64encode(zlib.compress(msgspec.json.encode(columns))).decode()


def _unpack(text: str) -> Sequence[Row]:
    columns = msgspec.json.decode(zlib.decompress(base64.b64decode(text)), type=list[list[int]])
    return list(zip(*map(accumulate, columns), strict=True))
