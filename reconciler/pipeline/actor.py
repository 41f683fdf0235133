"""Who changes a state by a decision, not by a plan, and how long it waits for others."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.attribution import UNATTRIBUTED, Attribution
from reconciler.core.clock import Clock
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.execution.leasing import leased
from reconciler.state.renewing import lasts_s
from reconciler.state.store import Event, JournalEntry, Lease, Store

_NOTE_S = 10.0  # others hold the whole state for a moment only, and one that died as long as its lease lasts


class Actor(Struct, frozen=True):
    """`holder`: this process, for people. `by`: who decides, and why. `run`: the id of it in the journal.

    `timeout_s`: how long a lock is waited for.
    """

    clock: Clock
    holder: str
    by: Attribution = UNATTRIBUTED
    run: str = ""
    timeout_s: float = 0.0
    reporter: Reporter = field(default_factory=Reporter)

    def leased(self, store: Store, scopes: Collection[str]) -> AbstractAsyncContextManager[Lease]:
        """As `leasing.leased`."""
        return leased(store, scopes, self.holder, timeout_s=self.timeout_s, reporter=self.reporter)

    def for_a_note(self, store: Store) -> "Actor":
        """The same, who waits for as long as others may hold the whole state to note something."""
        return replace(self, timeout_s=max(self.timeout_s, _NOTE_S + lasts_s(store)))

    def decided(self, data: Mapping[str, Any], address: Address | None = None) -> JournalEntry:
        """The journal's entry of a decision that is made now."""
        said = {**data, **self.by.to_json()}
        return JournalEntry(self.run, Event.DECIDED, self.clock.now(), address, data=said)
