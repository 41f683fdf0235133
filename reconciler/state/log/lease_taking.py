"""Taking scopes: from nobody, from a holder that died, or by force. `store.py` does the waiting."""

import math
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.clock import Clock
from reconciler.core.errors import Locked, StoreError, named
from reconciler.core.model import Address
from reconciler.state.codec import encode_entry
from reconciler.state.log import lease_beats, root
from reconciler.state.log.bucket import Bucket, Layout
from reconciler.state.log.damage import Damaged
from reconciler.state.log.head import Head
from reconciler.state.log.lease_beats import Beat, Exclusion
from reconciler.state.log.lease_keeping import Held
from reconciler.state.log.reading import require_fitting
from reconciler.state.log.root import Root
from reconciler.state.log.scope_state import Wanted, validate
from reconciler.state.log.scopes import Heads, Scopes, Seen
from reconciler.state.store import Event, JournalEntry


class Obstacle(Struct, frozen=True):
    """Who has a scope."""

    locked: Locked

    @property
    def rest_s(self) -> float | None:
        """Seconds until it may be taken for dead; None: it is alive."""
        return self.locked.rest_s

    @property
    def stands(self) -> bool:
        """Whether the scope may not be taken yet."""
        return self.rest_s is None or self.rest_s > 0


class Raced(Exception):
    """Another process took one of the scopes in this moment."""


class Taking:
    """Takes scopes of one state for this process, and frees them from others.

    A taken scope has a head with a higher epoch, which names the new lease. What its former holder writes
    then has an older tag, and does not land.
    """

    def __init__(
        self,
        bucket: Bucket,
        layout: Layout,
        clock: Clock,
        scopes: Scopes,
        heads: Heads,
        exclusion: Exclusion,
    ) -> None:
        self._bucket = bucket
        self._layout = layout
        self._clock = clock
        self._scopes = scopes
        self._heads = heads
        self._exclusion = exclusion

    def obstacles(self, names: Collection[str]) -> Mapping[str, Obstacle]:
        """By scope, who has it, or may have it."""
        _, holders = self._holders(names)
        found = {name: self._obstacle(name, *beat) for name, beat in holders.items()}
        return {name: obstacle for name, obstacle in found.items() if obstacle.stands}

    def take(self, names: Sequence[str], holder: str, known: Root) -> Obstacle | tuple[Held, dict[str, int]]:
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
        obstacles = [self._obstacle(name, *beat) for name, beat in holders.items()]
        if obstacle := next((obstacle for obstacle in obstacles if obstacle.stands), None):
            return obstacle
        for beat, tag in {beat.id: (beat, tag) for beat, tag in holders.values()}.values():
            self._bury(beat, tag)
        began_s, now = self._clock.monotonic(), self._clock.now().isoformat()
        lasts_s = self._exclusion.lease_s
        said_s = lasts_s if lasts_s < math.inf else 0.0
        beat = Beat(self._heads.nonce(), holder, now, now, said_s, nonce=self._heads.nonce())
        self._exclusion.begin(beat.id)
        try:
            tag = lease_beats.begin(self._bucket, self._layout, beat)
            # The first one alone: of two who want the same scopes, one then gets them all.
            epochs = [self._take_one(seen[name], beat) for name in names[:1]]
            epochs += self._bucket.in_parallel(lambda name: self._take_one(seen[name], beat), names[1:])
            self._note_taken(names)
        except BaseException:
            lease_beats.end(self._bucket, self._layout, beat.id)
            self._exclusion.end(beat.id)
            raise
        return Held(beat, tag, began_s + lasts_s), dict(zip(names, epochs, strict=True))

    def unlock(self, name: str, by: str, *, force: bool) -> Obstacle | None:
        """Take the scope from its holder and give it to nobody; says who had it, where somebody did.

        Raises Locked for a holder that may be alive, unless `force`.
        """
        while True:
            heads, holders = self._holders([name])
            seen, had = heads[name], holders.get(name)
            obstacle = self._obstacle(name, *had) if had is not None else None
            if obstacle is not None and obstacle.stands and not force:
                raise obstacle.locked
            if not seen.tag:
                raise StoreError(f"no run has ever locked {named(name)}", help="check its name and --state")
            if had is not None:
                beat = lease_beats.without(had[0], [name], self._heads.nonce())
                if lease_beats.replaced(self._bucket, self._layout, beat, had[1]) is None:
                    continue  # its holder beats at this moment
            self._note_taken([name])
            entry = self._unlocked(seen.head, obstacle is not None and obstacle.rest_s is None, by)
            wanted = Wanted(name, [encode_entry(entry)], (), ())
            change = validate(seen.marks, _nothing, _nothing, wanted, self._heads.nonce())
            if self._heads.advance(seen, [change], epoch=seen.head.epoch + 1, lease=""):
                return obstacle

    def fence(self, name: str) -> None:
        """End the lease that holds the scope, if one does, with all its scopes."""
        while (had := self._holders([name])[1].get(name)) is not None:
            ended = replace(had[0], ended=True, nonce=self._heads.nonce())
            if lease_beats.replaced(self._bucket, self._layout, ended, had[1]) is not None:
                lease_beats.end(self._bucket, self._layout, had[0].id)
        seen = self._heads.seen(name)
        while not self._heads.advance(seen, epoch=seen.head.epoch + 1, lease=""):
            self._scopes.refresh([name])
            seen = self._heads.seen(name)

    def _unlocked(self, head: Head, alive: bool, by: str) -> JournalEntry:
        data = {"unlock": head.scope, "holder": head.holder, "since": head.since, "alive": alive, "by": by}
        return JournalEntry("", Event.DECIDED, self._clock.now(), data=data)

    def _holders(self, names: Collection[str]) -> tuple[Mapping[str, Seen], Mapping[str, tuple[Beat, str]]]:
        """By scope, its head, and the newest beat of the lease that holds it there, dead or alive."""
        read = zip(names, self._bucket.get_all([self._layout.head(name) for name in names]), strict=True)
        there = [(name, found) for name, found in read if found is not None]
        self._bucket.in_parallel(lambda head: self._scopes.take(*head), there)
        seen = {name: self._heads.seen(name) for name in names}
        ids = {name: seen[name].head.lease for name, _ in there}
        found = lease_beats.read(self._bucket, self._layout, sorted(set(filter(None, ids.values()))))
        return seen, {name: found[id] for name, id in ids.items() if id in found and found[id][0].holds(name)}

    def _obstacle(self, name: str, beat: Beat, tag: str) -> Obstacle:
        rest_s = self._exclusion.rest_s(beat, tag)
        return Obstacle(Locked(name, beat.holder, beat.age_s(self._clock.now()), rest_s))

    def _bury(self, beat: Beat, tag: str) -> None:
        """End a lease whose holder is dead. Raises Raced where it lives after all."""
        ended = replace(beat, ended=True, nonce=self._heads.nonce())
        if lease_beats.replaced(self._bucket, self._layout, ended, tag) is None:
            raise Raced
        lease_beats.end(self._bucket, self._layout, beat.id)

    def _take_one(self, seen: Seen, beat: Beat) -> int:
        epoch = seen.head.epoch + 1
        if not self._heads.advance(seen, epoch=epoch, lease=beat.id, holder=beat.holder, since=beat.since):
            raise Raced
        return epoch

    def _note_taken(self, names: Sequence[str]) -> None:
        serials = {name: self._heads.seen(name).head.serial for name in names}
        self._heads.root = root.note_taken(self._bucket, self._layout, serials, self._heads.nonce())


def _nothing(address: Address) -> None:
    """There is no record where none is asked for."""
