"""A whole state as `StateDump`, and back; and the mark of one that has moved away. All of it blocks."""

from collections.abc import Callable

from msgspec.structs import replace

from reconciler.core.context import BASE
from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import contents as wholes
from reconciler.state.contents import Body, Row, StateDump, has_changed, is_there, same
from reconciler.state.log import copying, reading, root, writes
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.damage import Contradiction, Gone
from reconciler.state.log.keys import Layout
from reconciler.state.log.open_state import Opened
from reconciler.state.log.root import Root
from reconciler.state.log.row_order import in_one
from reconciler.state.store import no_state

_TIMES = 5  # how often a state is read anew that is merged while it is read


class Moving:
    """`opened`: what works on the state of a root."""

    def __init__(
        self,
        bucket: Bucket,
        layout: Layout,
        environment: str,
        opened: Callable[[Root], Opened],
        nonce: Callable[[], str],
    ) -> None:
        self._bucket = bucket
        self._layout = layout
        self._environment = environment
        self._opened = opened
        self._nonce = nonce

    def export(self) -> StateDump:
        return self._exported(self._root()[0])

    def verify(self) -> None:
        """Read all of it. Raises StoreError naming what was changed."""
        known = self._root()[0]
        root.require_here(self._bucket, known)
        wholes.verify(self._exported(known))

    def import_(self, contents: StateDump) -> None:
        wholes.verify(contents)
        if contents.environment != self._environment:
            raise StoreError(
                f"the copied state belongs to environment `{contents.environment or BASE}`, and not to "
                f"`{self._environment or BASE}`",
                help="name that environment by --env",
            )
        before = root.read(self._bucket, self._layout, self._environment)
        if before is None:
            root.refuse_foreign(self._bucket, self._layout)
        elif not before[0].moved_to or before[0].lineage != contents.lineage:
            raise is_there(self._bucket.place)
        generation, bucket = self._nonce(), self._bucket.renewed(contents.lineage)
        layout = Layout(self._environment, generation)
        copying.write(bucket, layout, contents, self._nonce)
        new = Root(
            contents.lineage,
            contents.environment,
            contents.key,
            generation,
            self._nonce(),
            serial=before[0].serial + 1 if before is not None else 1,
            scopes=dict.fromkeys(copying.scopes_of(contents), 1),
            moved_to=contents.moved_to,
            least_serial=contents.least_serial,
        )
        if before is None:
            outcome = writes.create(bucket, layout.root, new.encode())
        else:
            outcome = writes.replace(bucket, layout.root, new.encode(), before[1])
        if isinstance(outcome, writes.Conflict):
            raise is_there(self._bucket.place)
        copying.finish(self._bucket, layout)
        if before is not None:
            copying.delete_others(self._bucket.raw, layout)

    def retire(self, to: str, contents: StateDump) -> None:
        """First the root says that the state moves: a lease that is taken from then on takes that back.

        Then every lease from before is ended, and what stands there now is compared once more.
        """
        known, tag = self._root()
        self._refuse_other(known, to, contents)
        if known.moved_to == to:
            return
        known, tag = self._replaced(tag, replace(known.next(self._nonce()), moving=True))
        self._end_leases(known)
        self._refuse_other(known, to, contents)
        self._replaced(tag, replace(known.next(self._nonce()), moving=False, moved_to=to))

    def revive(self) -> None:
        known, tag = self._root()
        self._replaced(tag, replace(known.next(self._nonce()), moved_to=""))

    def _refuse_other(self, known: Root, to: str, contents: StateDump) -> None:
        if known.moved_to not in ("", to) or not same(self._exported(known), contents):
            raise has_changed(self._bucket.place)

    def _end_leases(self, known: Root) -> None:
        """Nobody who holds a scope can write or check any more."""
        opened = self._opened(known)
        for name in sorted(known.scopes):
            opened.taking.fence(name)

    def _root(self) -> tuple[Root, str]:
        found = root.read(self._bucket, self._layout, self._environment)
        if found is None:
            raise no_state(self._bucket.place)
        return found

    def _replaced(self, tag: str, after: Root) -> tuple[Root, str]:
        """Write `after` over the root with this tag; returns it with its own tag."""
        outcome = writes.replace(self._bucket, self._layout.root, after.encode(), tag)
        if isinstance(outcome, writes.Conflict):
            raise has_changed(self._bucket.place)
        return after, outcome.tag

    def _exported(self, known: Root) -> StateDump:
        for _ in range(_TIMES):
            try:
                return self._read(known)
            except (Gone, Contradiction):
                known = self._root()[0]
        return self._read(known)

    def _read(self, known: Root) -> StateDump:
        opened = self._opened(known)
        reading.keep_up(self._bucket, opened.layout, opened.scopes, known)
        records: dict[Address, Body] = {}
        chains: dict[str, list[Row]] = {}
        heads = {}
        for name in sorted(known.scopes):
            scope = opened.scopes.of(name)
            with scope.lock:
                head, tail = scope.head, scope.tail
                records |= {
                    each.address: Body(each.serial, each.body) for each in scope.folded.stored.values()
                }
            chains[name] = copying.rows_of(opened.files.all_changes(head, tail), head)
            heads[name] = wholes.Head(head.seq, head.hash, head.record_serial, head.epoch)
        return StateDump(
            known.lineage,
            known.key,
            known.environment,
            tuple(in_one(chains)),
            records,
            heads,
            known.moved_to,
            known.least_serial,
        )
