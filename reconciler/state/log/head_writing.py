"""Writing a head over the one that is known: the only way in which a scope changes."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.state.log import head as heads
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.changes import Change
from reconciler.state.log.head import Head
from reconciler.state.log.keys import Layout
from reconciler.state.log.scope_state import ScopeSummary
from reconciler.state.log.scopes import Scopes


class Seen(Struct, frozen=True):
    """A head as it is known, with its tag ("": there is none), its tail, and what it amounts to."""

    head: Head
    tag: str
    tail: Sequence[str]
    marks: ScopeSummary


class Heads:
    """`nonce()` gives another text each time."""

    def __init__(self, bucket: Bucket, layout: Layout, scopes: Scopes, nonce: Callable[[], str]) -> None:
        self._bucket = bucket
        self._layout = layout
        self._scopes = scopes
        self.nonce = nonce
        self.root = 0  # the serial that the root had when this process took a scope last

    def seen(self, name: str) -> Seen:
        scope = self._scopes.of(name)
        with scope.lock:
            return Seen(scope.head, scope.tag, scope.tail, scope.folded.marks)

    def advance(self, seen: Seen, changes: Sequence[tuple[Change, ScopeSummary]] = (), **fields: Any) -> bool:
        """Write what follows from `seen`; False: there is another head.

        `fields`: of `Head`. Raises StoreError where it is not known whether it landed.
        """
        root = max(seen.head.root, self.root)
        head = replace(seen.head, serial=seen.head.serial + 1, nonce=self.nonce(), root=root, **fields)
        if changes:
            head = head.of(changes[-1][1])
        tail = [*seen.tail, *(change.to_line() for change, _ in changes)]
        key, body = self._layout.head(head.scope), heads.encode(head, tail)
        if seen.tag:
            outcome = writes.replace(self._bucket, key, body, seen.tag)
        else:
            outcome = writes.create(self._bucket, key, body)
        if isinstance(outcome, writes.Conflict):
            return False
        self._scopes.wrote(head.scope, head, outcome.tag, tail, changes)
        return True
