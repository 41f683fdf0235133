"""The root of a state: what it is, which scopes it has, and how far each of them had come at least.

So a head that is missing, that nobody named, or that was put back to an older one is noticed.
"""

import base64
import json
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found, Layout
from reconciler.state.log.damage import damaged, newer_program, sealed, unsealed
from reconciler.state.log.head import Head

FORMAT = 1
UNFINISHED = "unfinished"  # beside a copy whose root is not written yet
PROBE = "probe/"  # where it is tried out whether the store keeps its word


class Root(Struct, frozen=True):
    """What a state is. `key`: the fingerprint key. `moved_to`: where the state went.

    `scopes`: each that was ever leased, with the serial that its head had at the begin or end of a lease; the
    head may have a higher one. A program before this one wrote the names only.
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
        fields = asdict(self) | {
            "key": base64.b64encode(self.key).decode(),
            "scopes": dict(sorted(self.scopes.items())),
        }
        return json.dumps(sealed(fields), indent=1).encode()

    def next(self, nonce: str) -> "Root":
        """What is written over this one; so far, nothing else differs."""
        return replace(self, serial=self.serial + 1, nonce=nonce)


def read(bucket: Bucket, layout: Layout, environment: str) -> tuple[Root, str] | None:
    """The root with its tag; None where there is no state. Raises StoreError where it is not one for us."""
    found = bucket.get(layout.root)
    if found is None:
        return None
    root = decoded(bucket, found)
    if root.environment != environment:
        raise StoreError(
            f"the state {bucket.place} belongs to environment `{root.environment or BASE}`, and not to "
            f"`{environment or BASE}`",
            help="its objects were copied or renamed; name the prefix where it was made",
        )
    return root, found.tag


def require_here(bucket: Bucket, root: Root) -> None:
    """Raises StateMoved where the state is at another place."""
    if root.moved_to:
        raise StateMoved(bucket.place, root.moved_to)


def note_taken(
    bucket: Bucket, layout: Layout, environment: str, serials: Mapping[str, int], nonce: str
) -> int:
    """Let the root name scopes that were just taken, with the serials of their heads; returns its own serial.

    Raises StateMoved.

    A move that has begun can no longer end: it may have read what the new holders are about to change.
    """
    while True:
        known = read(bucket, layout, environment)
        if known is None:
            raise StoreError(f"the state {bucket.place} was deleted", help="restore a backup")
        root, tag = known
        require_here(bucket, root)
        if _written(bucket, layout, replace(root, moving=False), tag, serials, nonce):
            return root.serial + 1


def note_given_back(
    bucket: Bucket, layout: Layout, environment: str, serials: Mapping[str, int], nonce: str
) -> None:
    """Let the root say how far these scopes have come. A state that moves, or has moved, stays as it is."""
    while (known := read(bucket, layout, environment)) is not None:
        root, tag = known
        if root.moving or root.moved_to or _written(bucket, layout, root, tag, serials, nonce):
            return


def accept(bucket: Bucket, layout: Layout, environment: str, heads: Sequence[Head], nonce: str) -> None:
    """Let the root fit these heads, which may be older than it says: a person goes on with them."""
    known = read(bucket, layout, environment)
    if known is None:
        return
    root, tag = known
    serial = max([root.serial, *(head.root for head in heads)])
    scopes = {**root.scopes, **{head.scope: head.serial for head in heads}}
    if (serial, scopes) != (root.serial, root.scopes):
        new = replace(root, serial=serial + 1, nonce=nonce, scopes=scopes)
        writes.replace(bucket, layout.root, new.encode(), tag)


def _written(
    bucket: Bucket, layout: Layout, root: Root, tag: str, serials: Mapping[str, int], nonce: str
) -> bool:
    """Whether the root says so now; False: another one came first."""
    scopes = {**root.scopes, **{name: max(n, root.scopes.get(name, 0)) for name, n in serials.items()}}
    new = replace(root.next(nonce), scopes=scopes)
    return isinstance(writes.replace(bucket, layout.root, new.encode(), tag), writes.Stored)


def traces_of(bucket: Bucket, layout: Layout) -> Sequence[str]:
    """The keys of what a state left. What was cut off, a proof or a copy without its root, does not count."""
    found = sorted(bucket.raw.list(layout.environment))
    unfinished = tuple(key.removesuffix(UNFINISHED) for key in found if key.endswith(f"/{UNFINISHED}"))
    return [key for key in found if not key.startswith((*unfinished, f"{layout.environment}{PROBE}"))]


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
            fields = unsealed(fields)
            key, named = base64.b64decode(fields.pop("key")), fields.pop("scopes")
            scopes = named if isinstance(named, dict) else dict.fromkeys(named, 0)
            # An older program wrote more.
            known = {name: value for name, value in fields.items() if name in Root.__struct_fields__}
            return Root(**known, key=key, scopes=scopes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(bucket.place, "state.json is not what was written", bucket.way_out()) from error
    raise newer_program(bucket.place)
