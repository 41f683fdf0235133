"""The root of a state: what it is, which scopes it has, and how far each of them had come at least.

So a head that is missing, that nobody named, or that was put back to an older one is noticed.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state.log import head as heads
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found, Layout
from reconciler.state.log.damage import damaged, newer_program, sealed, unsealed
from reconciler.state.store import no_state

FORMAT = 1
UNFINISHED = "unfinished"  # beside a copy whose root is not written yet
PROBE = "probe/"  # objects of the probe
_RACES = 100  # how often others may be faster to write the root; of those who want to, one always can


class Root(Struct, frozen=True):
    """What a state is. `key`: the fingerprint key. `moved_to`: where the state went.

    `scopes`: each that was ever leased, with the serial that its head had at the begin of a lease; the head
    may have a higher one. A program before this one wrote the names only.
    `moving`: it is about to move; a lease that is taken takes that back. `generation`: the folder of
    everything else, so that a copy appears as a whole, with its root. `least_serial`: see `StateDump`.
    `serial` and `nonce`: see `head.Head`.
    """

    lineage: str
    environment: str
    key: bytes
    generation: str
    nonce: str
    serial: int = 1
    scopes: Mapping[str, int] = field(default_factory=dict)
    moved_to: str = ""
    moving: bool = False
    least_serial: int = 0
    format: int = FORMAT

    def encode(self) -> bytes:
        """The object as it is written, with a digest of its fields."""
        fields = to_builtins(replace(self, scopes=dict(sorted(self.scopes.items()))))
        return json.dumps(sealed(fields), indent=1).encode()

    def next(self, nonce: str) -> "Root":
        """What is written over this one; so far, nothing else differs."""
        return replace(self, serial=self.serial + 1, nonce=nonce)


def read(bucket: Bucket, layout: Layout) -> tuple[Root, str] | None:
    """The root with its tag; None where there is no state. Raises StoreError where it is not one for us."""
    found = bucket.get(layout.root)
    if found is None:
        return None
    return _of(bucket, layout, found), found.tag


def require(bucket: Bucket, layout: Layout) -> tuple[Root, str]:
    """As `read`. Raises StoreError where there is no state, too."""
    found = read(bucket, layout)
    if found is None:
        raise no_state(bucket.place)
    return found


def _of(bucket: Bucket, layout: Layout, found: Found) -> Root:
    root = decoded(bucket, found)
    if root.environment != layout.environment:
        raise StoreError(
            f"the state {bucket.place} belongs to environment `{root.environment or BASE}`, and not to "
            f"`{layout.environment or BASE}`",
            help="its objects were copied or renamed; name the prefix where it was made",
        )
    return root


def require_here(bucket: Bucket, root: Root) -> None:
    """Raises StateMoved where the state is at another place."""
    if root.moved_to:
        raise StateMoved(bucket.place, root.moved_to)


def note_taken(bucket: Bucket, layout: Layout, serials: Mapping[str, int], nonce: str) -> int:
    """Let the root name scopes that were just taken, with the serials of their heads; returns its own serial.

    Raises StateMoved.

    A move that has begun can no longer end: it may have read what the new holders are about to change.
    """

    def noted(root: Root) -> Root:
        require_here(bucket, root)
        scopes = {**root.scopes, **{name: max(n, root.scopes.get(name, 0)) for name, n in serials.items()}}
        return replace(root, moving=False, scopes=scopes)

    return change(bucket, layout, noted, nonce).serial


def change(bucket: Bucket, layout: Layout, changed: Callable[[Root], Root], nonce: str) -> Root:
    """Write what `changed` makes of the root, which comes back. Raises StoreError."""
    found = bucket.get(layout.root)
    for _ in range(_RACES):
        if found is None:
            raise no_state(bucket.place)
        new = changed(_of(bucket, layout, found).next(nonce))
        outcome = writes.replace(bucket, layout.root, new.encode(), found.tag)
        if isinstance(outcome, writes.Stored):
            return new
        found = outcome.found
    raise StoreError(f"others were faster {_RACES} times to change {bucket.place}", help="run again")


def accept(bucket: Bucket, layout: Layout, nonce: str) -> None:
    """Let the root fit the heads, which may be older than it says: a person goes on with them."""
    root, tag = require(bucket, layout)
    require_here(bucket, root)
    keys = [Layout(layout.environment, root.generation).head(name) for name in root.scopes]
    read = zip(root.scopes, bucket.get_all(keys), strict=True)
    known = [heads.decode(item.body, name, root.lineage)[0] for name, item in read if item is not None]
    serial = max([root.serial, *(head.root for head in known)])
    scopes = {**root.scopes, **{head.scope: head.serial for head in known}}
    if (serial, scopes) != (root.serial, root.scopes):
        new = replace(root, serial=serial + 1, nonce=nonce, scopes=scopes)
        writes.replace(bucket, layout.root, new.encode(), tag)


def traces_of(bucket: Bucket, layout: Layout) -> Sequence[str]:
    """The keys of what a state left. What was cut off, a proof or a copy without its root, does not count."""
    found = sorted(bucket.raw.list(layout.prefix))
    unfinished = tuple(key.removesuffix(UNFINISHED) for key in found if key.endswith(f"/{UNFINISHED}"))
    return [key for key in found if not key.startswith((*unfinished, f"{layout.prefix}{PROBE}"))]


def refuse_foreign(bucket: Bucket, layout: Layout) -> None:
    """Raises StoreError where a new state would stand among files that are none of ours."""
    traces = traces_of(bucket, layout)
    if traces and bucket.get(layout.root) is None:  # nobody has made one meanwhile
        raise StoreError(
            f"there is no state {bucket.place}, but there are traces of one, such as {traces[0]}",
            help=f"restore it with `{command('state', 'restore', 'FILE')}`, or name another prefix",
            advice=(command("state", "restore", "FILE"),),
        )
    foreign = bucket.list_beside()
    if foreign:
        raise StoreError(
            f"{bucket.place} holds files that do not belong to a state, such as {foreign[0]}",
            help="name a prefix of its own for the state, such as s3://BUCKET/reconcile",
        )


def decoded(bucket: Bucket, found: Found) -> Root:
    """Raises StoreError for anything but a root, and for one of a newer program."""
    try:
        fields = json.loads(found.body)
        newer = fields["format"] > FORMAT
        if not newer:
            named = fields["scopes"]
            scopes = named if isinstance(named, dict) else dict.fromkeys(named, 0)
            return convert(unsealed(fields) | {"scopes": scopes}, Root)  # an older program wrote more
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(bucket.place, "state.json is not what was written", bucket.way_out()) from error
    raise newer_program(bucket.place)
