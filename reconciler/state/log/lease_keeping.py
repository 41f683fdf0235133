"""The leases of this process: which are ours, for how long, and the beats that say so. All of it blocks."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.state.log import lease_beats
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.store import Lease, ends_too_soon, no_longer_ours

_FRESH_S = 0.5  # for so long at most an answer serves a check


@dataclass(eq=False, slots=True)
class Held:
    """`tag`: of the newest beat; `ends_s`: by the monotonic clock. `lost`: it stays lost, in any case."""

    beat: Beat
    tag: str
    ends_s: float
    lost: bool = False
    lock: Lock = field(default_factory=Lock)

    def holds(self, scope: str) -> bool:
        """Whether the scope is still ours, as far as is known here."""
        return not self.lost and self.beat.holds(scope)


class Keeping:
    """Which scopes are ours.

    A lock that is taken away by force shows only when the store is asked. Each call comes right after the
    commit of its intent, which asked just that, in its own scope. So such a commit serves one check of that
    scope, if that one comes at once; every other check reads the lease.

    At once: before as much time has passed again as the commit's answer took. Who takes a scope away after
    that commit has landed needs two round trips for it, and is not done before.
    """

    def __init__(
        self, bucket: Bucket, layout: Layout, clock: Clock, nonce: Callable[[], str], exclusion: Exclusion
    ) -> None:
        self._bucket = bucket
        self._layout = layout
        self._clock = clock
        self._nonce = nonce
        self._exclusion = exclusion
        self._held: dict[tuple[str, int], Held] = {}  # by scope and epoch
        self._fresh: dict[tuple[str, int], list[float]] = {}  # the same; until when each serves a check

    def keep(self, held: Held, holder: str, epochs: dict[str, int]) -> Lease:
        """Remember a lease that was just taken, with the epoch of each scope."""
        self._held.update(dict.fromkeys(epochs.items(), held))
        return self._lease(holder, epochs)

    def require(self, lease: Lease, for_s: float = 0) -> None:
        """Raises StoreError unless `lease` is ours for longer than `for_s`, as far as is known here."""
        for scope, epoch in lease.epochs.items():
            held = self._held.get((scope, epoch))
            if held is None or not held.holds(scope):
                raise no_longer_ours(scope)
            rest_s = held.ends_s - self._clock.monotonic()
            if rest_s <= 0:
                held.lost = True
                raise no_longer_ours(scope)
            if rest_s <= for_s:
                raise ends_too_soon(scope, for_s)

    def shortest_s(self, lease: Lease) -> float:
        """How long all of `lease` lasts yet."""
        return min((held.ends_s for held in self._all([lease])), default=0.0) - self._clock.monotonic()

    def now_s(self) -> float:
        """The monotonic clock, by which leases are counted."""
        return self._clock.monotonic()

    def note_commit(self, lease: Lease, asked_s: float) -> None:
        """The store took an intent under `lease`, which was sent at `asked_s`."""
        now_s = self._clock.monotonic()
        for key in lease.epochs.items():
            self._fresh.setdefault(key, []).append(now_s + min(now_s - asked_s, _FRESH_S))

    def use_fresh_check(self, lease: Lease) -> bool:
        """Whether the next check needs no look of its own."""
        now_s = self._clock.monotonic()
        return all(self._use_fresh_check(key, now_s) for key in lease.epochs.items())

    def _use_fresh_check(self, key: tuple[str, int], now_s: float) -> bool:
        proofs = [until_s for until_s in self._fresh.pop(key, ()) if until_s >= now_s]
        if len(proofs) > 1:
            self._fresh[key] = proofs[1:]
        return bool(proofs)

    def refresh(self, leases: Iterable[Lease]) -> None:
        """Notice when some of it was taken away: one read for all scopes that were taken together."""
        for held in self._all(leases):
            with held.lock:
                self._read_again(held)

    def beat(self, lease: Lease, for_s: float = math.inf) -> Lease:
        """Put off the end of `lease`. Raises StoreError, and then it ends when it would have.

        `for_s`: not of what lasts longer already, such as by another one who asked at the same moment.
        """
        self.require(lease)
        for held in self._all([lease]) if self._exclusion.lease_s < math.inf else ():
            with held.lock:
                if held.ends_s - self._clock.monotonic() <= for_s:
                    self._beat(held)
        self.require(lease)
        return self._lease(lease.holder, lease.epochs)

    def give_back(self, lease: Lease) -> None:
        """Give up the scopes of `lease`: its last ones end the lease itself."""
        for held in self._all([lease]):
            ours = [scope for scope, epoch in lease.epochs.items() if self._held.get((scope, epoch)) is held]
            with held.lock:
                self._give_back(held, ours)
            for scope in ours:
                del self._held[scope, lease.epochs[scope]]

    def mark_lost(self, scope: str, epoch: int) -> None:
        """The head says that another one has it."""
        held = self._held.get((scope, epoch))
        if held is not None:
            held.beat = replace(held.beat, freed=(*held.beat.freed, scope))

    def _beat(self, held: Held) -> None:
        while not held.lost:
            began_s, now = self._clock.monotonic(), self._clock.now()
            beat = replace(held.beat, number=held.beat.number + 1, at=now.isoformat(), nonce=self._nonce())
            tag = lease_beats.replaced(self._bucket, self._layout, beat, held.tag)
            if self._clock.monotonic() >= held.ends_s:
                held.lost = True  # too late: somebody may have taken it for dead
            elif tag is not None:
                held.beat, held.tag, held.ends_s = beat, tag, began_s + self._exclusion.lease_s
                return
            else:
                self._read_again(held)

    def _give_back(self, held: Held, scopes: Collection[str]) -> None:
        others = [scope for (scope, _), other in self._held.items() if other is held and scope not in scopes]
        if not any(map(held.holds, others)):
            held.lost = True
            lease_beats.end(self._bucket, self._layout, held.beat.id)
            self._exclusion.end(held.beat.id)
            return
        while not held.lost:
            beat = lease_beats.without(held.beat, scopes, self._nonce())
            tag = lease_beats.replaced(self._bucket, self._layout, beat, held.tag)
            if tag is not None:
                held.beat, held.tag = beat, tag
                return
            self._read_again(held)

    def _read_again(self, held: Held) -> None:
        """Another may have written over our beat: it took a scope away, or all of them."""
        found = lease_beats.read(self._bucket, self._layout, [held.beat.id]).get(held.beat.id)
        if found is None or found[0].ended:
            held.lost = True
        else:
            held.beat, held.tag = found

    def _all(self, leases: Iterable[Lease]) -> Iterable[Held]:
        """Those of `leases`, each once: in practice it is one."""
        found = (self._held.get(key) for lease in leases for key in lease.epochs.items())
        return list({id(held): held for held in found if held is not None}.values())

    def _lease(self, holder: str, epochs: Mapping[str, int]) -> Lease:
        lasts_s = self._exclusion.lease_s
        ends = self._clock.now() + timedelta(seconds=lasts_s) if lasts_s < math.inf else None
        return Lease(holder, epochs, ends)
