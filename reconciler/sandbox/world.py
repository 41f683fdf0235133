"""Everything that exists on the emulated platform, in memory, with a note of all changes.

A *thing* is one object. Its `state` may end by itself: `due` says when, a table of transitions how. Times are
seconds since the epoch, by the world's clock.
"""

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from reconciler.sandbox import switches

if TYPE_CHECKING:
    from reconciler.sandbox.postgres import Servers

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass
class Thing:
    """One object of the platform, by its `id`. Fields are what the database stores.

    `below`: the fields whose ids lists of it are asked under, such as its app.
    """

    kind: ClassVar[str]
    below: ClassVar[tuple[str, ...]] = ()
    id: str
    state: str = field(default="", kw_only=True)
    due: float | None = field(default=None, kw_only=True)

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids that lists of it are asked under, such as its app; never changes."""
        return tuple(getattr(self, name) for name in self.below)

    def shown(self, *names: str) -> dict[str, Any]:
        """The fields that answers show as they are stored, by name."""
        return {name: getattr(self, name) for name in names}


@dataclass
class Organization(Thing):
    """`id` is the slug."""

    kind = "organization"


@dataclass
class App(Thing):
    """`id` is the name. `secrets_version` grows with every change of a secret of the app.

    `created_at` is 0 where it is not known.
    """

    kind = "app"
    org_slug: str
    primary_region: str
    secrets_version: int = 0
    created_at: float = 0.0


@dataclass
class Machine(Thing):
    """The volumes mounted are those whose `attached_machine_id` names it.

    `memory_kept`: what was in memory is still there, so it runs, or a start resumes it. `moved`: to
    `host`, since the last boot. `used_gb`: how much of each mounted volume the machine uses;
    what was added since waits for its next boot.
    """

    kind = "machine"
    below = ("app",)
    app: str
    name: str
    region: str
    instance_id: str
    created_at: float
    updated_at: float
    cpu_kind: str = "shared"
    cpus: int = 1
    memory_mb: int = 256
    swap_size_mb: int | None = None
    schedule: str | None = None
    host: str = ""
    moved: bool = False
    memory_kept: bool = True
    booted_at: float | None = None
    used_gb: dict[str, int] = field(default_factory=dict)
    lease_nonce: str = ""
    lease_until: float = 0.0
    lease_description: str = ""

    @property
    def present(self) -> bool:
        """False from the moment its destruction began."""
        return self.state not in ("destroying", "destroyed")


T = TypeVar("T", bound=Thing)


class Transition(NamedTuple):
    """The end of a state: after how many seconds, and which state follows, or which function is called.

    Without a state that follows, the thing is removed.
    """

    after_s: float
    then: str | Callable[["World", Any, float], None] | None


Transitions = Mapping[tuple[str, str], Transition]  # by kind and state


class World:
    """Things by class and id. Handlers change them through `put`, `enter` and `remove` alone.

    Only these three note a change, and only noted changes are stored. A handler that refuses must not have
    changed anything.

    `now` is the time of the request being answered. `changed` collects, until it is committed,
    each changed thing by (kind, id), None for a removed one; `revision` counts the changes.
    `watcher` is called with each new state: the thing, the state before, and since when.
    `postgres`: the servers of its clusters; None while these are only described.
    """

    def __init__(self, rng: random.Random, transitions: Transitions, *, extended: bool = True) -> None:
        self.now = 0.0
        self.switches: dict[str, Any] = switches.defaults(extended=extended)
        self.changed: dict[tuple[str, str], Thing | None] = {}
        self.revision = 0
        self.fingerprint_key = rng.randbytes(32)  # of this world's secrets
        self.wall: Callable[[], float] = time.time  # the real clock, under which others sign
        self.hurried = False  # the world's clock runs faster than the real one
        self.watcher: Callable[[World, Thing, str, float], None] | None = None
        self.postgres: Servers | None = None
        self._rng = rng
        self._transitions = transitions
        self._things: dict[type[Thing], dict[str, Any]] = {}
        self._children: dict[tuple[type[Thing], str], dict[str, Any]] = {}
        self._agenda: list[tuple[float, int, Thing]] = []
        self._order = itertools.count()

    def find(self, cls: type[T], id: str) -> T | None:
        """The thing of this class with this id; None when there is none."""
        thing: T | None = self._things.get(cls, {}).get(id)
        return thing

    def all(self, cls: type[T]) -> Iterable[T]:
        """In order of creation."""
        return self._things.get(cls, {}).values()

    def children(self, cls: type[T], parent: str) -> Iterable[T]:
        """The things of this class below `parent`, in order of creation."""
        return self._children.get((cls, parent), {}).values()

    def load(self, thing: Thing) -> None:
        """Take in a thing that is stored already."""
        self._index(thing)
        self._plan(thing)

    def put(self, thing: Thing) -> None:
        """Take in a new or changed thing, to be stored with the next commit."""
        self._index(thing)
        self.changed[thing.kind, thing.id] = thing
        self.revision += 1

    def enter(self, thing: Thing, state: str, at: float | None = None, lasts_s: float | None = None) -> None:
        """Put `thing` into `state` as of `at` (default: now), for `lasts_s` or what the table says."""
        transition = self._transitions.get((thing.kind, state))
        since = self.now if at is None else at
        before = thing.state
        if lasts_s is None and transition:
            lasts_s = transition.after_s
        thing.state = state
        thing.due = None if lasts_s is None else since + lasts_s
        self.put(thing)
        self._plan(thing)
        if self.watcher and before != state:
            self.watcher(self, thing, before, since)

    def remove(self, thing: Thing) -> None:
        """Take a thing out, and out of the lists of its parents."""
        del self._things[type(thing)][thing.id]
        for parent in thing.parents:
            del self._children[type(thing), parent][thing.id]
        self.changed[thing.kind, thing.id] = None
        self.revision += 1

    @property
    def next_due(self) -> float | None:
        """When the next state ends, in seconds since the epoch; None when none does."""
        return self._agenda[0][0] if self._agenda else None

    def settle_until(self, now: float) -> None:
        """End every state that falls due by `now`, in order, at its own time."""
        self.now = now
        while self._agenda and self._agenda[0][0] <= now:
            due, _, thing = heapq.heappop(self._agenda)
            if thing.due == due and self.find(type(thing), thing.id) is thing:
                thing.due = None
                then = self._transitions[thing.kind, thing.state].then
                if then is None:
                    self.remove(thing)
                elif isinstance(then, str):
                    self.enter(thing, then, due)
                else:
                    then(self, thing, due)

    def new_id(self, length: int = 16) -> str:
        """A random id of lower-case letters and digits, as the platform makes them."""
        return "".join(self._rng.choices(_ALPHABET, k=length))

    def has_organization(self, slug: str) -> bool:
        """Whether the organization exists; `personal` always does."""
        return slug == "personal" or self.find(Organization, slug) is not None

    def _index(self, thing: Thing) -> None:
        cls = type(thing)
        self._things.setdefault(cls, {})[thing.id] = thing
        for parent in thing.parents:
            self._children.setdefault((cls, parent), {})[thing.id] = thing

    def _plan(self, thing: Thing) -> None:
        if thing.due is not None:
            heapq.heappush(self._agenda, (thing.due, next(self._order), thing))
