"""Leases of an object store, and the signs of life of who holds them.

A lease is one object for all its scopes. Its holder writes it anew every few seconds (a beat), always over
its own last one. It holds for `lease_s` from the moment at which the newest beat was sent. Who waits for it
takes it away once the object has stood unchanged for that long on its own clock, by writing over just that
object: then the holder's next beat fails. A lease that is not there has ended.

No two clocks are compared to take anything away. `at`, the holder's wall clock, only tells whether it is
worthwhile to wait and see; where it is wrong, somebody waits longer.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import asdict, replace

from reconciler.state.objects import writes
from reconciler.state.objects.bucket import Bucket
from reconciler.state.objects.damage import Damaged
from reconciler.state.objects.keys import Layout

_LONGER = 1.05  # how much longer is waited: the clocks of two machines do not run alike


class Beat(Struct, frozen=True):
    """`number` counts; `since`, `at`: when the lease was taken, and this was written, by the holder's clock.

    `freed`: scopes that were given back or taken away. `ended`: all are.
    """

    id: str
    holder: str
    since: str
    at: str
    lease_s: float
    number: int = 1
    freed: tuple[str, ...] = ()
    ended: bool = False
    nonce: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def holds(self, scope: str) -> bool:
        return not self.ended and scope not in self.freed

    def age_s(self, now: datetime) -> float:
        return max(0.0, (now - datetime.fromisoformat(self.since)).total_seconds())

    def looks_alive(self, now: datetime) -> bool:
        return abs(now - datetime.fromisoformat(self.at)) < timedelta(seconds=self.lease_s)


@dataclass(slots=True)
class Watch:
    """What one process has seen of others' leases, on its monotonic clock.

    `seen`: since when each has its tag. `moved`: those that were seen to beat.
    """

    seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)

    def saw(self, beat: Beat, tag: str, now_s: float) -> None:
        known = self.seen.get(beat.id)
        if known is None or known[0] != tag:
            self.seen[beat.id] = tag, now_s
        if known is not None and known[0] != tag:
            self.moved.add(beat.id)

    def rest_s(self, beat: Beat, now_s: float) -> float:
        """How much longer it must stand unchanged before it may be taken away; 0 or less: it may."""
        return self.seen[beat.id][1] + beat.lease_s * _LONGER - now_s


def read(bucket: Bucket, layout: Layout, id: str) -> tuple[Beat, str] | None:
    """The newest beat with its tag; None for a lease that has ended."""
    found = bucket.get(layout.lease(id)) if id else None
    if found is None:
        return None
    try:
        return decoded(found.body), found.tag
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the lease {id} is not what was written") from error


def decoded(body: bytes) -> Beat:
    """Raises KeyError, TypeError or ValueError for anything else."""
    fields = json.loads(body)
    return Beat(**fields | {"freed": tuple(fields["freed"])})


def begin(bucket: Bucket, layout: Layout, beat: Beat) -> str:
    """Write the first one; its tag."""
    outcome = writes.create(bucket, layout.lease(beat.id), beat.encode())
    if isinstance(outcome, writes.Beaten):
        raise Damaged(f"the lease {beat.id} exists already")
    return outcome.tag


def replaced(bucket: Bucket, layout: Layout, beat: Beat, tag: str) -> str | None:
    """Write `beat` over the one with this tag; its own tag, or None where another came first."""
    outcome = writes.replace(bucket, layout.lease(beat.id), beat.encode(), tag)
    return outcome.tag if isinstance(outcome, writes.Landed) else None


def end(bucket: Bucket, layout: Layout, id: str) -> None:
    bucket.delete(layout.lease(id))


def without(beat: Beat, scopes: Collection[str], nonce: str) -> Beat:
    return replace(beat, freed=tuple(sorted({*beat.freed, *scopes})), nonce=nonce)
