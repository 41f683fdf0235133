"""A change of several scopes, in parts: one commit for each scope, since no store changes two at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import anyio

from reconciler.core.context import UNATTRIBUTED, Attribution
from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import Move
from reconciler.state.store import Event, JournalEntry, Lease, Store


@dataclass(slots=True)
class Part:
    """The content of one commit to one scope. `last`: committed only after all parts that are not `last`."""

    entries: list[JournalEntry] = field(default_factory=list)
    put: list[StateRecord] = field(default_factory=list)
    remove: list[Address] = field(default_factory=list)
    last: bool = False


def moved_entry(move: Move, run: str, at: datetime, by: Attribution = UNATTRIBUTED) -> JournalEntry:
    """The journal's entry of a record that moves. `by`: unset within a run, whose first entry says it."""
    data = {"from": str(move.source), "to": str(move.target), "id": move.id, **by.to_json()}
    return JournalEntry(run, Event.DECIDED, at, move.source, data=data)


class Parts:
    """Parts by scope. A process that dies in between leaves some of them: each must make sense alone."""

    def __init__(self, scopes: Iterable[str] = ()) -> None:
        self._parts = {scope: Part() for scope in scopes}

    def of(self, scope: str) -> Part:
        """The part of `scope`, which may be new."""
        return self._parts.setdefault(scope, Part())

    def move(self, scope: str, entry: JournalEntry, source: Address) -> None:
        """A record moves within `scope`, away from `source`.

        Last: until then the move can be made again, also in the records of other scopes that name it.
        """
        part = self.of(scope)
        part.entries.append(entry)
        part.remove.append(source)
        part.last = True

    async def commit(self, store: Store, lease: Lease) -> Sequence[StateRecord]:
        """Store all parts; their records come back as stored. Raises the first StoreError, at the end."""
        stored: list[StateRecord] = []
        failures: list[StoreError] = []

        async def one(scope: str, part: Part) -> None:
            try:
                stored.extend(await store.commit(lease.of(scope), part.entries, part.put, part.remove))
            except StoreError as failure:
                failures.append(failure)

        for last in (False, True):
            async with anyio.create_task_group() as group:  # a store may write them at once
                for scope, part in self._parts.items():
                    if part.last is last and not failures:
                        group.start_soon(one, scope, part)
        if failures:
            raise failures[0]
        return stored
