"""What one process knows of the scopes of a state: as of which head, and what that amounts to."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state.log import head as heads
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found, Layout
from reconciler.state.log.changes import Change
from reconciler.state.log.damage import Contradiction, Damaged, Gone, Older
from reconciler.state.log.head import Head
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import ScopeState, ScopeSummary, read
from reconciler.state.log.segments import Files, decoded

_PATIENT = 5  # how often all is read again for one moment of everything
_AT_MOST = 50


@dataclass(eq=False, slots=True)
class Scope:
    """`tag`: of the head. `tail`: its changes, as lines. `lock`: for reading or changing the rest."""

    head: Head
    folded: ScopeState
    tag: str = ""
    tail: list[str] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)


_Read = tuple[Head, list[str], str]  # a head that was read: with its tail and its tag


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

    @contextmanager
    def reading(self, name: str) -> Iterator[Scope]:
        """A scope that has a head; nobody changes it meanwhile.

        Raises Contradiction where another thread is about to read it again, and nothing is known of it.
        """
        scope = self.of(name)
        with scope.lock:
            if not scope.tag:
                raise Contradiction(f"the head of `{name}` is read again")
            yield scope

    @property
    def known(self) -> Mapping[str, Scope]:
        """All scopes of which anything is known."""
        return dict(self._known)

    def keep_up(self, root: Root, listed: Mapping[str, str] | None = None) -> None:
        """Keep up with all scopes of the state, as of one moment. Raises StoreError or Damaged.

        Raises Contradiction where heads do not fit the root, which may have been read a moment before.

        `listed`: a list of the heads that was made a moment ago, perhaps before somebody named another scope.
        Between two lists that differ in one head at most, there was a moment at which all heads were as they
        were read. Where several scopes are written to all the time, no two such lists come: then heads are
        read one after the other. This is not a snapshot, and harmless, because no record leaves its scope.
        """
        names = root.scopes
        if self._bucket.is_of_one_moment and not any(self.of(name).tag for name in names):
            with suppress(Gone):  # a file that was merged meanwhile, or is lost
                found = self._bucket.get_under(self._layout.heads)
                self.refresh(names, found)
                self._require_fitting(root, found)
                return
        if listed is None:
            listed = self._bucket.list(self._layout.heads)
        self._read_one_by_one(names, listed)
        unnamed = listed.keys() - {self._layout.head(name) for name in names}
        found = {key: head for key in unnamed if (head := self._bucket.get(key)) is not None}
        self._require_fitting(root, found)

    def refresh(
        self, names: Collection[str], heads: Mapping[str, Found] | None = None
    ) -> dict[str, Sequence[Change]]:
        """Read the heads of these scopes; by name, what is new. Raises Gone, Damaged or Newer.

        `heads`: by key, those that were read already.
        """
        keys = [self._layout.head(name) for name in names]
        read = [heads.get(key) for key in keys] if heads is not None else self._bucket.get_all(keys)
        decoded = [self._decoded(name, found) for name, found in zip(names, read, strict=True)]
        waits = any(head.segments for head, _, _ in decoded)  # files are read for these
        new = (self._bucket.in_parallel if waits else map)(self._keep_up, decoded)
        return dict(zip(names, new, strict=True))

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
            if (scope.head.serial, scope.tag == "") == (seen.head.serial, seen.tag == ""):  # not read since
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

    def _read_one_by_one(self, names: Collection[str], listed: Mapping[str, str]) -> None:
        before = self._tags(names, listed)
        if not before.keys() >= set(names):
            before = self._tags(names)
        for attempt in range(_AT_MOST):
            missing = [name for name in names if name not in before]
            if missing:
                raise Damaged(f"the head of `{missing[0]}` is missing")
            differing = [name for name, tag in before.items() if _plain(self.of(name).tag) != _plain(tag)]
            if not differing:
                return
            try:
                self.refresh(differing)
            except Gone as gone:
                if attempt > _PATIENT and self._tags(names) == before:
                    raise Damaged(f"{gone} is missing") from gone
                before = self._tags(names)
                continue
            after = self._tags(names)
            moved = [name for name in names if _plain(before[name]) != _plain(after.get(name, ""))]
            if len(moved) <= 1 or attempt >= _PATIENT:
                return
            before = after
        raise StoreError(
            f"the state {self._bucket.place} changes faster than it can be read", help="run again"
        )

    def _tags(self, names: Collection[str], listed: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """By scope, the tag of its head."""
        found = listed if listed is not None else self._bucket.list(self._layout.heads)
        return {name: found[key] for name in names if (key := self._layout.head(name)) in found}

    def _require_fitting(self, root: Root, found: Mapping[str, Found]) -> None:
        """Raises Contradiction where root and heads do not fit, or the root does not name a head of `found`.

        It need not name one in which nothing was ever stored.

        A process that dies while it takes a new scope leaves one that is empty.
        """
        named = {self._layout.head(name) for name in root.scopes}
        for key, head in found.items():
            if key not in named and heads.is_used(head.body):
                raise Contradiction(f"state.json does not name {key.removeprefix(self._layout.folder)}")
        for name in root.scopes:
            require_fitting(root, self.of(name).head)

    def _decoded(self, name: str, found: Found | None) -> _Read:
        if found is None:
            raise Gone(self._layout.head(name))
        head, tail = heads.decode(found.body, name, self._begin.hash)
        return head, tail, found.tag

    def _keep_up(self, read: _Read) -> Sequence[Change]:
        head, tail, tag = read
        scope = self.of(head.scope)
        with scope.lock:
            if scope.tag and head.serial <= scope.head.serial:
                if head == scope.head:
                    scope.tag = tag
                return ()
            changes = self._fold(scope.folded, head, tail, head.scope)
            scope.head, scope.tag, scope.tail = head, tag, tail
        return changes

    def _fold(self, folded: ScopeState, head: Head, tail: Sequence[str], name: str) -> Sequence[Change]:
        """Bring `folded` to `head`. Where `head` is damaged, it is as empty as at first."""
        base, earlier = self._files.since(head, folded.marks.changes, head.changes - len(tail))
        try:
            if base is not None:
                folded.marks, folded.stored, folded.records = base.marks, base.stored, base.records
            known = folded.marks.changes
            changes = [change for line in tail if (change := decoded(line, name)).number > known]
            changes = [*earlier, *changes]
            for change in changes:
                folded.take(change, read(folded.marks, folded.stored.get, change, name))
            if not head.fits(folded.marks):
                raise Damaged(f"the head of `{name}` does not fit its journal and records")
        except Damaged:
            self._forget(self.of(name))
            raise
        return changes

    def _forget(self, scope: Scope) -> None:
        folded, scope.tag = scope.folded, ""
        folded.marks, folded.stored, folded.records = self._begin, {}, {}


def require_fitting(root: Root, head: Head) -> None:
    """Raises Older where the head or the root is older than the other one says."""
    if head.serial < root.scopes.get(head.scope, 0):
        raise Older(f"the head of `{head.scope}` is an older one")
    if root.serial < head.root:
        raise Older("state.json is an older one")


def _plain(tag: str) -> str:
    """Lists give tags without the versions, and sometimes without the quotes, that they have elsewhere."""
    return tag.partition("\n")[0].strip('"')
