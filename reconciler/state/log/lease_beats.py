"""Leases of an object store, and the signs of life of who holds them.

A lease is one object for all its scopes. Its holder writes it anew every few seconds (a beat), always over
its own last one. It holds for `lease_s` from the moment at which the newest beat was sent. Who waits for it
takes it away once the object has stood unchanged for that long on its own clock, by writing over just that
object: then the holder's next beat fails. A lease that is not there has ended.

No two clocks are compared to take anything away. `at`, the holder's wall clock, only tells whether it is
worthwhile to wait and see; where it is wrong, somebody waits longer.

So it is where the place knows no better (`Watched`). Others tell by their own clock, or by a lock that ends
with its process: an `Exclusion` of theirs says so.
"""

import json
from abc import abstractmethod
from datetime import datetime, timedelta

from msgspec import Struct, convert
from msgspec.structs import asdict

from reconciler.core.clock import Clock
from reconciler.core.state_url import LEASE_S
from reconciler.state.log.damage import Damaged

_LONGER = 1.05  # how much longer is waited: the clocks of two machines do not run alike


class Beat(Struct, frozen=True):
    """`number` counts; `since`, `at`: when the lease was taken, and this was written, by the holder's clock.

    `freed`: scopes that were given back or taken away. `ended`: all are.
    """

    id: str
    holder: str
    since: str
    at: str
    lease_s: float  # 0: as long as its process
    number: int = 1
    freed: tuple[str, ...] = ()
    ended: bool = False
    nonce: str = ""

    def encode(self) -> bytes:
        """The object as it is written."""
        return json.dumps(asdict(self)).encode()

    def holds(self, scope: str) -> bool:
        """Whether the lease covers the scope."""
        return not self.ended and scope not in self.freed

    def age_s(self, now: datetime) -> float:
        """How long ago the lease was taken, by the holder's clock."""
        return max(0.0, (now - datetime.fromisoformat(self.since)).total_seconds())

    def looks_alive(self, now: datetime) -> bool:
        """Whether the newest beat is recent, if both clocks are right."""
        return abs(now - datetime.fromisoformat(self.at)) < timedelta(seconds=self.lease_s)


class Exclusion:
    """How a place tells that the holder of a lease is alive. One for each handle on a state.

    `lease_s`: how long a lease lasts unless it is renewed; `math.inf`: as long as its process. `poll_s`: how
    often a held lease is asked for again.
    """

    lease_s: float
    poll_s = 0.2

    def begin(self, id: str) -> None:
        """This process holds a lease from now on, which nobody else knows yet."""

    def end(self, id: str) -> None:
        """The lease has ended, or did not come about."""

    @abstractmethod
    def rest_s(self, beat: Beat, tag: str) -> float | None:
        """Seconds until the holder may be taken for dead; None: it is alive, or was a moment ago."""

    def close(self) -> None:
        """End what this process holds."""


class Watched(Exclusion):
    """A holder is dead whose lease has stood unchanged for long enough on the clock of who watches it."""

    poll_s = 1.0

    def __init__(self, clock: Clock, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}  # by lease, since when it has its tag
        self._moved: set[str] = set()  # those that were seen to beat

    def rest_s(self, beat: Beat, tag: str) -> float | None:
        now_s, known = self._clock.monotonic(), self._seen.get(beat.id)
        if known is None or known[0] != tag:
            self._seen[beat.id] = tag, now_s
            if known is not None:
                self._moved.add(beat.id)
        rest_s = self._seen[beat.id][1] + beat.lease_s * _LONGER - now_s
        is_alive = rest_s > 0 and (beat.id in self._moved or beat.looks_alive(self._clock.now()))
        return None if is_alive else rest_s


def read(id: str, body: bytes) -> Beat:
    """A beat of the lease `id`. Raises Damaged for anything else."""
    try:
        return decoded(body)
    except ValueError as error:
        raise Damaged(f"the lease {id} is not what was written") from error


def decoded(body: bytes) -> Beat:
    """Raises ValueError for anything else."""
    return convert(json.loads(body), Beat)
