"""The leases of this process: taken from nobody, from a holder that died, or by force; and kept by beats.

All of it blocks. `store.py` does the waiting.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError, named
from reconciler.core.model import Address
from reconciler.state.codec import encode_entry
from reconciler.state.log import lease_beats, root, writes
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.damage import Damaged
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import Wanted, validate
from reconciler.state.log.scopes import Scopes, Seen, require_fitting
from reconciler.state.store import Event, JournalEntry, Lease, ends_too_soon, no_longer_ours

_FRESH_S = 0.5  # for so long at most an answer serves a check


class Raced(Exception):
    """Another process took one of the scopes in this moment."""


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


class Leases:
    """Takes scopes of one state for this process, frees them from others, and knows which are ours.

    A taken scope has a head with a higher epoch, which names the new lease. What its former holder writes
    then has an older tag, and does not land.

    A lock that is taken away by force shows only when the store is asked. Each call comes right after the
    commit of its intent, which asked just that, in its own scope. So such a commit serves one check of that
    scope, if that one comes at once; every other check reads the lease.

    "At once" means within one more round trip. Taking a scope away needs two round trips after that commit
    has landed, so nobody can have done it by then.
    """

    def __init__(
        self, bucket: Bucket, layout: Layout, clock: Clock, scopes: Scopes, exclusion: Exclusion
    ) -> None:
        self._bucket = bucket
        self._layout = layout
        self._clock = clock
        self._scopes = scopes
        self._exclusion = exclusion
        self._held: dict[tuple[str, int], Held] = {}  # by scope and epoch
        self._fresh: dict[tuple[str, int], list[float]] = {}  # the same; until when each serves a check

    # --- taking ---

    def obstacles(self, names: Collection[str]) -> Mapping[str, Locked]:
        """By scope, who has it, or may have it."""
        return self._standing(self._holders(names)[1])

    def take(self, names: Sequence[str], holder: str, known: Root) -> Lease | Locked:
        """All `names`, which are sorted, or none: then the first obstacle. Raises Raced, or StoreError.

        `known`: the root. Raises Damaged where a head that it names is gone, and Contradiction where one does
        not fit it.
        Only the heads that were read here are written over: others of this process may read newer ones
        meanwhile, with a holder that is alive.
        """
        seen, holders = self._holders(names)
        for name in names:
            if name in known.scopes and not seen[name].tag:
                raise Damaged(f"the head of `{name}` is missing")
            require_fitting(known, seen[name].head)
        if standing := self._standing(holders):
            return next(iter(standing.values()))
        for beat, tag in {beat.id: (beat, tag) for beat, tag in holders.values()}.values():
            if not self._ended(beat, tag):
                raise Raced  # it lives after all
        began_s, now = self._clock.monotonic(), self._clock.now().isoformat()
        lasts_s = self._exclusion.lease_s
        said_s = lasts_s if lasts_s < math.inf else 0.0
        beat = Beat(self._scopes.nonce(), holder, now, now, said_s, nonce=self._scopes.nonce())
        self._exclusion.begin(beat.id)
        try:
            made = writes.create(self._bucket, self._layout.lease(beat.id), beat.encode())
            assert isinstance(made, writes.Stored)  # its id is random
            # The first one alone: of two who want the same scopes, one then gets them all.
            epochs = [self._take_one(seen[name], beat) for name in names[:1]]
            epochs += self._bucket.in_parallel(lambda name: self._take_one(seen[name], beat), names[1:])
            self._note_taken(names)
        except BaseException:
            self._end(beat.id)
            raise
        taken = dict(zip(names, epochs, strict=True))
        self._held.update(dict.fromkeys(taken.items(), Held(beat, made.tag, began_s + lasts_s)))
        return Lease(holder, taken)

    def unlock(self, name: str, by: str, *, force: bool) -> Locked | None:
        """Take the scope from its holder and give it to nobody; says who had it, where somebody did.

        Raises Locked for a holder that may be alive, unless `force`.
        """
        while True:
            heads, holders = self._holders([name])
            seen, had = heads[name], holders.get(name)
            locked = self._standing(holders).get(name)
            if locked is not None and not force:
                raise locked
            if not seen.tag:
                raise StoreError(f"no run has ever locked {named(name)}", help="check its name and --state")
            if had is not None and self._freed(*had, [name]) is None:
                continue  # its holder beats at this moment
            self._note_taken([name])
            alive = locked is not None and locked.rest_s is None
            data = {"unlock": name, "holder": seen.head.holder, "since": seen.head.since}
            entry = JournalEntry(
                "", Event.DECIDED, self._clock.now(), data={**data, "alive": alive, "by": by}
            )
            wanted = Wanted(name, [encode_entry(entry)], (), ())
            change = validate(seen.marks, _nothing, _nothing, wanted, self._scopes.nonce())
            if self._scopes.advance(seen, [change], epoch=seen.head.epoch + 1, lease=""):
                return locked

    def fence(self, name: str) -> None:
        """End the lease that holds the scope, if one does, with all its scopes."""
        while (had := self._holders([name])[1].get(name)) is not None:
            self._ended(*had)
        seen = self._scopes.seen(name)
        while not self._scopes.advance(seen, epoch=seen.head.epoch + 1, lease=""):
            self._scopes.refresh([name])
            seen = self._scopes.seen(name)

    def _holders(self, names: Collection[str]) -> tuple[Mapping[str, Seen], Mapping[str, tuple[Beat, str]]]:
        """By scope, its head, and the newest beat of the lease that holds it there, dead or alive."""
        read = zip(names, self._bucket.get_all([self._layout.head(name) for name in names]), strict=True)
        there = [(name, found) for name, found in read if found is not None]
        self._bucket.in_parallel(lambda head: self._scopes.take(*head), there)
        seen = {name: self._scopes.seen(name) for name in names}
        ids = {name: seen[name].head.lease for name, _ in there}
        found = self._beats(sorted(set(filter(None, ids.values()))))
        return seen, {name: found[id] for name, id in ids.items() if id in found and found[id][0].holds(name)}

    def _standing(self, holders: Mapping[str, tuple[Beat, str]]) -> Mapping[str, Locked]:
        """By scope, those of `holders` from whom it may not be taken yet."""
        now, rests = self._clock.now(), self._exclusion.rest_s
        found = [
            Locked(name, beat.holder, beat.age_s(now), rests(beat, tag))
            for name, (beat, tag) in holders.items()
        ]
        return {locked.scope: locked for locked in found if locked.rest_s is None or locked.rest_s > 0}

    def _ended(self, beat: Beat, tag: str) -> bool:
        """End the lease of another one, with all its scopes; False: its holder beats at this moment."""
        if self._replaced(replace(beat, ended=True, nonce=self._scopes.nonce()), tag) is None:
            return False
        self._bucket.delete(self._layout.lease(beat.id))
        return True

    def _take_one(self, seen: Seen, beat: Beat) -> int:
        epoch = seen.head.epoch + 1
        if not self._scopes.advance(seen, epoch=epoch, lease=beat.id, holder=beat.holder, since=beat.since):
            raise Raced
        return epoch

    def _note_taken(self, names: Sequence[str]) -> None:
        serials = {name: self._scopes.seen(name).head.serial for name in names}
        self._scopes.root = root.note_taken(self._bucket, self._layout, serials, self._scopes.nonce())

    # --- keeping ---

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

    def beat(self, lease: Lease, for_s: float = math.inf) -> None:
        """Put off the end of `lease`. Raises StoreError, and then it ends when it would have.

        `for_s`: not of what lasts longer already, such as by another one who asked at the same moment.
        """
        self.require(lease)
        for held in self._all([lease]) if self._exclusion.lease_s < math.inf else ():
            with held.lock:
                if held.ends_s - self._clock.monotonic() <= for_s:
                    self._beat(held)
        self.require(lease)

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
        if held is not None:  # it may be given back at this moment
            held.beat = replace(held.beat, freed=(*held.beat.freed, scope))

    def _beat(self, held: Held) -> None:
        while not held.lost:
            began_s, now = self._clock.monotonic(), self._clock.now()
            beat = replace(
                held.beat, number=held.beat.number + 1, at=now.isoformat(), nonce=self._scopes.nonce()
            )
            tag = self._replaced(beat, held.tag)
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
            self._end(held.beat.id)
            return
        while not held.lost:
            freed = self._freed(held.beat, held.tag, scopes)
            if freed is not None:
                held.beat, held.tag = freed
                return
            self._read_again(held)

    def _read_again(self, held: Held) -> None:
        """Another may have written over our beat: it took a scope away, or all of them."""
        found = self._beats([held.beat.id]).get(held.beat.id)
        if found is None or found[0].ended:
            held.lost = True
        else:
            held.beat, held.tag = found

    def _all(self, leases: Iterable[Lease]) -> Iterable[Held]:
        """Those of `leases`, each once: in practice it is one."""
        found = (self._held.get(key) for lease in leases for key in lease.epochs.items())
        return list({id(held): held for held in found if held is not None}.values())

    # --- the objects ---

    def _beats(self, ids: Sequence[str]) -> dict[str, tuple[Beat, str]]:
        """By id, the newest beat of each of these leases, with its tag; none for one that has ended."""
        found = zip(ids, self._bucket.get_all([self._layout.lease(id) for id in ids]), strict=True)
        return {id: (lease_beats.read(id, item.body), item.tag) for id, item in found if item is not None}

    def _replaced(self, beat: Beat, tag: str) -> str | None:
        """Write `beat` over the one with this tag; its own tag, or None where another came first."""
        outcome = writes.replace(self._bucket, self._layout.lease(beat.id), beat.encode(), tag)
        return outcome.tag if isinstance(outcome, writes.Stored) else None

    def _freed(self, beat: Beat, tag: str, scopes: Collection[str]) -> tuple[Beat, str] | None:
        """As `_replaced`, by the next beat of a lease that no longer covers `scopes`; with that beat."""
        freed = tuple(sorted({*beat.freed, *scopes}))
        after = replace(beat, freed=freed, nonce=self._scopes.nonce())
        new = self._replaced(after, tag)
        return (after, new) if new is not None else None

    def _end(self, id: str) -> None:
        """End a lease of ours."""
        self._bucket.delete(self._layout.lease(id))
        self._exclusion.end(id)


def _nothing(address: Address) -> None:
    """There is no record where none is asked for."""
