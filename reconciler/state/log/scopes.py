"""What one process knows of the scopes of a state: as of which head, and what that amounts to."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.model import Address
from reconciler.state.log import head as heads
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found, Layout
from reconciler.state.log.changes import Change
from reconciler.state.log.damage import Damaged, Gone
from reconciler.state.log.head import Head
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, read
from reconciler.state.log.segments import Files, decoded


@dataclass(eq=False, slots=True)
class Scope:
    """`tag`: of the head. `tail`: its changes, as lines. `lock`: for reading or changing the rest."""

    head: Head
    folded: ScopeState
    tag: str = ""
    tail: list[str] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)


class _Read(Struct, frozen=True):
    """A head that was read."""

    head: Head
    tail: list[str]
    tag: str


class Seen(Struct, frozen=True):
    """A head as it is known, with its tag ("": there is none), its tail, and what it amounts to."""

    head: Head
    tag: str
    tail: Sequence[str]
    marks: ScopeSummary


class Scopes:
    """Keeps up with heads as they are read, and writes them: the only way in which a scope changes.

    For any thread. `nonce()` gives another text each time.
    """

    def __init__(
        self,
        bucket: Bucket,
        layout: Layout,
        files: Files,
        begin: ScopeSummary,
        nonce: Callable[[], str],
    ) -> None:
        self._bucket = bucket
        self._layout = layout
        self._files = files
        self._begin = begin  # of a scope without any change
        self.nonce = nonce
        self.root = 0  # the serial that the root had when this process took a scope last
        self._known: dict[str, Scope] = {}

    def of(self, name: str) -> Scope:
        """What is known of a scope; a scope without a head is empty."""
        if name not in self._known:
            new = Head(name, self._begin.hash).of(self._begin)
            self._known.setdefault(name, Scope(new, ScopeState(self._begin)))
        return self._known[name]

    @property
    def known(self) -> Mapping[str, Scope]:
        """All scopes of which anything is known."""
        return dict(self._known)

    def differing(self, tags: Mapping[str, str]) -> list[str]:
        """Of these scopes, those whose head is not the one we know."""
        return [name for name, tag in tags.items() if plain(self.of(name).tag) != plain(tag)]

    def refresh(
        self, names: Collection[str], heads: Mapping[str, Found] | None = None
    ) -> dict[str, Sequence[Change]]:
        """Read the heads of these scopes; by name, what is new. Raises Gone, Damaged or Newer.

        `heads`: by key, those that were read already.
        """
        keys = [self._layout.head(name) for name in names]
        read = [heads.get(key) for key in keys] if heads is not None else self._bucket.get_all(keys)
        decoded = [self._decoded(name, found) for name, found in zip(names, read, strict=True)]
        changes = {found.head.scope: self._keep_up(found) for found in decoded if not found.head.has_files}
        waiting = [found for found in decoded if found.head.has_files]
        done = self._bucket.in_parallel(self._keep_up, waiting)  # files are read for these
        return changes | {found.head.scope: new for found, new in zip(waiting, done, strict=True)}

    def read_again(self, names: Collection[str]) -> None:
        """Read these scopes as if nothing of them was known. Raises as `refresh` does."""
        for name in names:
            scope = self.of(name)
            with scope.lock:
                self._forget(scope)
        self.refresh(names)

    def take(self, name: str, found: Found) -> Sequence[Change]:
        """Keep up with a head that was read; what is new. Raises Gone, Damaged or Newer."""
        return self._keep_up(self._decoded(name, found))

    def seen(self, name: str) -> Seen:
        """The head of a scope as it is known now, to be written over."""
        scope = self.of(name)
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
        outcome = writes.replace(self._bucket, key, body, seen.tag)
        if isinstance(outcome, writes.Conflict):
            return False
        scope = self.of(head.scope)
        with scope.lock:
            if head.serial > scope.head.serial:  # else it was read meanwhile
                for change, marks in changes:
                    scope.folded.take(change, marks)
                scope.head, scope.tag, scope.tail = head, outcome.tag, tail
        return True

    def elsewhere(self, name: str, address: Address) -> str | None:
        """Another scope than `name` that has a record at this address, as far as is known here."""
        return next(
            (
                other
                for other, scope in self.known.items()
                if other != name and address in scope.folded.stored
            ),
            None,
        )

    def _decoded(self, name: str, found: Found | None) -> "_Read":
        if found is None:
            raise Gone(self._layout.head(name))
        head, tail = heads.decode(found.body, name, self._begin.hash)
        return _Read(head, tail, found.tag)

    def _keep_up(self, read: "_Read") -> Sequence[Change]:
        head, scope = read.head, self.of(read.head.scope)
        with scope.lock:
            if scope.tag and head.serial <= scope.head.serial:
                if head == scope.head:
                    scope.tag = read.tag
                return ()
            changes = self._fold(scope.folded, head, read.tail, head.scope)
            scope.head, scope.tag, scope.tail = head, read.tag, read.tail
        return changes

    def _fold(self, folded: ScopeState, head: Head, tail: Sequence[str], name: str) -> Sequence[Change]:
        """Bring `folded` to `head`. Where that fails, it is as empty as at first."""
        before = folded.marks.changes
        try:
            base, earlier = self._files.since(head, before, head.changes - len(tail))
            if base is not None:
                folded.marks, folded.stored, folded.records = base.marks, base.stored, base.records
            known = folded.marks.changes
            changes = [change for line in tail if (change := decoded(line, name)).number > known]
            changes = [*earlier, *changes]
            for change in changes:
                folded.take(change, read(folded.marks, folded.stored.get, change, name))
            if not head.fits(folded.marks):
                raise Damaged(f"the head of `{name}` does not fit its journal and records")
        except (Gone, Damaged):
            self._forget(self.of(name))
            raise
        return changes

    def _forget(self, scope: Scope) -> None:
        folded, scope.tag = scope.folded, ""
        folded.marks, folded.stored, folded.records = self._begin, {}, {}


def plain(tag: str) -> str:
    """Lists give tags without the versions, and sometimes without the quotes, that they have elsewhere."""
    return tag.partition("\n")[0].strip('"')
