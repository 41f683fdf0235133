"""The root of a state: what it is, and which scopes it has. So a missing head is noticed."""

import base64
import json

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.errors import StateMoved, StoreError
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found
from reconciler.state.log.damage import damaged, newer_program, sealed, unsealed
from reconciler.state.log.keys import Layout

FORMAT = 1
UNFINISHED = "unfinished"  # beside a copy whose root is not written yet
PROBE = "probe/"  # where it is tried out whether the store keeps its word


class Root(Struct, frozen=True):
    """`key`: the fingerprint key. `scopes`: each that was ever leased. `moved_to`: where the state went.

    `moving`: it is about to move; a lease that is taken takes that back. `generation`: the folder of
    everything else, so that a copy appears as a whole, with its root. `least_serial`: see `Contents`.
    `serial` and `nonce`: see `head.Head`.
    """

    lineage: str
    environment: str
    key: bytes
    generation: str
    nonce: str
    serial: int = 1
    scopes: frozenset[str] = field(default_factory=frozenset)
    moved_to: str = ""
    moving: bool = False
    least_serial: int = 0
    format: int = FORMAT

    def encode(self) -> bytes:
        fields = asdict(self) | {
            "key": base64.b64encode(self.key).decode(),
            "scopes": sorted(self.scopes),
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
    if root.moved_to:
        raise StateMoved(bucket.place, root.moved_to)


def name_scopes(bucket: Bucket, layout: Layout, environment: str, wanted: frozenset[str], nonce: str) -> None:
    """Let the root name `wanted`, whose heads were just taken. Raises StateMoved.

    A move that has begun can no longer end: it may have read what the new holders are about to change.
    """
    while True:
        known = read(bucket, layout, environment)
        if known is None:
            raise StoreError(f"the state {bucket.place} was deleted", help="restore a backup")
        root, tag = known
        require_here(bucket, root)
        if wanted <= root.scopes and not root.moving:
            return
        root = replace(root.next(nonce), scopes=root.scopes | wanted, moving=False)
        if isinstance(writes.replace(bucket, layout.root, root.encode(), tag), writes.Landed):
            return


def refuse_foreign(bucket: Bucket, layout: Layout) -> None:
    """Raises StoreError where a new state would stand among files that are none of ours."""
    found = sorted(bucket.list(layout.environment))
    unfinished = tuple(key.removesuffix(UNFINISHED) for key in found if key.endswith(f"/{UNFINISHED}"))
    # A proof that was cut off may have left something behind.
    proof = f"{layout.environment}{PROBE}"
    traces = [key for key in found if not key.startswith((*unfinished, proof))]
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
            key, scopes = base64.b64decode(fields.pop("key")), frozenset(fields.pop("scopes"))
            # An older program wrote more.
            known = {name: value for name, value in fields.items() if name in Root.__struct_fields__}
            return Root(**known, key=key, scopes=scopes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(bucket.place, "state.json is not what was written", bucket.way_out()) from error
    raise newer_program(bucket.place)
