"""The core data, all of it frozen: desired resources, records, and changes.

*Desired* comes from manifests (`Resource`), *observed* from the platform
(`Observation`), *record* from the state (`StateRecord`). A `Change` is what one
resource needs; the calls that carry it out are `steps.Step`.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import OWED_OVERDUE, Diagnostic, Span, warning
from reconciler.core.percents import Grow
from reconciler.core.saved import Saved
from reconciler.core.spans import parse_span
from reconciler.core.words import soon

Path = tuple[str | int, ...]  # keys and list indices from the document's root: ("spec", "size_gb")

SENSITIVE = "(sensitive)"  # stands for every secret value, everywhere
READY_AFTER = "ready_after_s"  # the field of a record: how many seconds its object took to be ready
ALERT_AT = "alert_at"  # the objective: the percentage that an object may be full
DISMISSED = "dismissed"  # the field of a record with ids of equal objects that a person confirmed as intended
TO_APPROVE = "needs approval: "  # begins the reason of a create that nothing shows to be new
BAD_ANSWER = (
    "answered bad id"  # the field of a record: the object was created, but the answer has an invalid id
)
DELETION_SENT = "deletion sent"  # the field of a record: a deletion was sent, so the object may be gone

# For an adopted object, the time of its creation does not matter.
LONG_AGO = datetime.fromtimestamp(0, UTC)

ADDRESS = re.compile(
    r"(?P<kind>[A-Z][A-Za-z]*)/(?:(?P<app>[^/\[\]]+)/)?(?P<name>[^/\[\]]+)(?:\[(?P<ordinal>\d+)\])?"
)


class Address(NamedTuple):
    """The name of one resource: `Volume/shop/data`, `Volume/shop/data[1]`, `PostgresCluster/orders`.

    Ordinal 0 has no suffix, so that adding `count` to a manifest renames nothing.
    """

    kind: str
    name: str
    app: str | None = None
    ordinal: int = 0

    def __str__(self) -> str:
        base = f"{self.kind}/{self.app}/{self.name}" if self.app else f"{self.kind}/{self.name}"
        return f"{base}[{self.ordinal}]" if self.ordinal else base

    @property
    def quoted(self) -> str:
        """The address for a shell, which takes `[1]` for a pattern."""
        return shlex.quote(str(self))

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the address that `text` names. Raises ValueError if it names none."""
        found = ADDRESS.fullmatch(text)
        if not found:
            raise ValueError(f"`{text}` is not an address; one looks like Volume/shop/data")
        return cls(found["kind"], found["name"], found["app"], int(found["ordinal"] or 0))


class Deletion(StrEnum):
    """What happens to an object whose manifest has left.

    SCRATCH: it is what a drill restores into, under a name that begins with `SCRATCH_NAME`; drills delete it
    without asking anybody. A manifest cannot say that.
    """

    RETAIN = "retain"
    DELETE = "delete"
    SCRATCH = "scratch"


SCRATCH_NAME = "drill-"  # reserved: no manifest may name an object so


class Lifecycle(Saved, frozen=True):
    """How a resource may be treated. Stored with the record, so that it outlives the manifest.

    `restart`: whether an owed restart of its machine may be carried out, or only be reported.
    `restart_within`: the span in which it has to be done, such as `14d`; None: nobody said.
    """

    deletion: Deletion = Deletion.RETAIN
    snapshot_before: tuple[Literal["extend", "delete"], ...] = ("delete",)
    timeout_s: int = 1800
    restart: Literal["ask", "auto"] = "ask"
    restart_within: str | None = None

    @property
    def scratch(self) -> bool:
        """Whether the object is what a drill restores into."""
        return self.deletion is Deletion.SCRATCH


class Reference(NamedTuple):
    """A reference to the resource `address`, at the path `span_path` of a manifest.

    `once`: the resource at `address` is needed only to create the object; later its manifest may be removed.
    """

    address: Address
    span_path: Path
    once: bool = False


class Ignore(Struct, frozen=True):
    """A field of `spec` whose difference is ignored through the day `until` (UTC; None: forever).

    `path`: its place in the manifest.
    """

    field: str
    reason: str
    until: date | None
    path: Path


class Relocation(Struct, frozen=True):
    """How an environment changes the addresses of the manifests.

    `addresses`: those in the environment, by those in the manifests. `apps`: the apps in the environment that
    hold the resources of a kind and app of the manifests, by these two.
    """

    addresses: Mapping[Address, Address]
    apps: Mapping[tuple[str, str], frozenset[str]]


class Resource(Struct, frozen=True):
    """One desired object: a validated manifest (one of `count` of them).

    `spec` is the kind's own pydantic model; `spec.model_fields_set` are the fields
    that the person wrote (or that a RetentionPolicy gave), which are the managed ones.
    `objectives` are goals that are not fields, such as `snapshot_max_age_h`.
    `spans`: positions by path, as its own file has them; `inherited`: those of values that a policy or an
    overlay gives, and of those that an overlay removed. Read both with `span`. `base`: its address in its own
    file, by which overlays name it, if one of them moves it to another app (None: the same).
    """

    address: Address
    spec: Any
    lifecycle: Lifecycle
    file: str
    spans: Mapping[Path, Span]
    labels: Mapping[str, str] = field(default_factory=dict)
    adopt_id: str | None = None
    references: tuple[Reference, ...] = ()
    objectives: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[Path, Span] = field(default_factory=dict)
    ignores: tuple[Ignore, ...] = ()
    grow: Grow | None = None
    base: Address | None = None

    @property
    def in_file(self) -> Address:
        """The address that its own file gives it; that of ordinal 0 for one of `count`."""
        return self.base or self.address._replace(ordinal=0)

    def span(self, *path: str | int) -> Span | None:
        """Where the value at `path` stands, or else its nearest enclosing value that has a position."""
        while True:
            if path in self.inherited:
                return self.inherited[path]
            if path in self.spans:
                return self.spans[path]
            if not path:
                return None
            path = path[:-1]

    def written_in(self, *path: str | int) -> str:
        """The file that the value at `path` stands in: an overlay's, where one gave it."""
        span = self.span(*path)
        return span.file if span is not None else self.file


class Obligation(Struct, frozen=True):
    """Work that a call left owed, kept with the record until it is done.

    `certainty` is "unknown" if the answer that says whether it is owed was lost. `machine`: that owes it,
    as the answer said; "" where none named one.
    """

    work: Literal["restart"]
    because: str
    certainty: Literal["owed", "unknown"]
    since: datetime
    machine: str = ""


class StateRecord(Struct, frozen=True):
    """What we know of one object of ours. `id` is the platform's id ("" for objects known by name only).

    `applied` holds the managed fields as last sent or found equal, and the
    create-only fields as sent. Secret values appear as keyed fingerprints only.
    `source` is the manifest file, relative to the project; `scope` the lease's scope.
    `inferred`: the id comes from evidence, not from an answer; protected from deletion.
    """

    address: Address
    id: str
    scope: str
    applied: Mapping[str, Any]
    lifecycle: Lifecycle
    created_at: datetime
    source: str = ""
    obligations: tuple[Obligation, ...] = ()
    inferred: bool = False
    serial: int = 0


class Observation(Struct, frozen=True):
    """The answer to one read. Only a complete one may mean that an object is absent.

    `at` is the platform's own time (its Date header), so that ages do not depend on our clock.
    `objects` are wire models; `problem` says why an incomplete one is incomplete, and `cause` what others
    have in common with it where the service fails: "the platform answers 503".
    """

    objects: Sequence[Any]
    complete: bool
    at: datetime
    problem: str = ""
    cause: str = ""


def owing(record: StateRecord, owed: Obligation) -> StateRecord:
    """`record` with `owed`. Of two for one reason the more certain one, or else the older, stays."""
    for known in record.obligations:
        if (known.work, known.because) == (owed.work, owed.because):
            if known.certainty == "owed" or owed.certainty == "unknown":
                return record
            others = tuple(other for other in record.obligations if other is not known)
            return replace(record, obligations=(*others, owed))
    return replace(record, obligations=(*record.obligations, owed))


class Effect(StrEnum):
    """The effect of changing a field of an existing object."""

    IN_PLACE = "in_place"
    GROW = "grow"
    RESTART = "restart"
    WRITE_ONLY = "write_only"
    REFUSED = "refused"


class Action(StrEnum):
    """What a change does, weightiest first; then the words for "nothing is sent"."""

    DELETE = "delete"
    CREATE = "create"
    RESTORE = "restore"
    ADOPT = "adopt"
    EXTEND = "extend"
    UPDATE = "update"
    SET = "set"
    SUSPEND = "suspend"
    STOP = "stop"
    START = "start"
    SNAPSHOT = "snapshot"
    RESTART = "restart"
    FORGET = "forget"
    RETAIN = "retain"
    REFUSED = "refused"
    NOOP = "noop"

    @property
    def changes_something(self) -> bool:
        """Objects or records: what is refused, retained or still in progress does not."""
        return self not in (Action.REFUSED, Action.RETAIN, Action.NOOP)


ACTIONS = tuple(action.value for action in Action if action.changes_something)


def weightiest_first(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return `actions` without repetition, in the order of `Action`."""
    order = list(Action)
    return tuple(sorted(set(actions), key=order.index))


class Impact(StrEnum):
    """The consequence of a change for users of the object."""

    ONLINE = "online"
    RESTART = "restart"
    DOWNTIME = "downtime"
    REPOINT = "repoint"  # a reference to an existing object will refer to a new one
    DATA_LOSS = "data_loss"


IMPACTS = tuple(impact.value for impact in Impact)


class FieldChange(Saved, frozen=True):
    """One field that differs. Values are JSON; a secret's are `SENSITIVE`."""

    path: str
    before: Any
    after: Any
    effect: Effect


class Waits(Saved, frozen=True):
    """What a change waits for. `window`: the name of a Window, or of a Freeze.

    `until`: when it may go out; None: nobody can tell. `timezone`: that people there think in.
    """

    window: str
    until: Annotated[datetime, Meta(tz=True)] | None
    timezone: str = "UTC"

    def said(self, now: datetime) -> str:
        """It in words, at that time."""
        opens = f"next open {soon(self.until, self.timezone, now)}" if self.until is not None else _NEVER
        return f"waits for {self.window}, {opens}"


_NEVER = "and no time is known at which it may go out"


class Change(Saved, frozen=True):
    """What a resource needs. `action`: the weightiest action; `also`: the other ones.

    `id` is the platform's, where one is known. `advice`: the reason's commands. `waits`: where it may not go
    out when the plan is made; the digest of a plan leaves it out.
    """

    address: Address
    action: Action
    fields: tuple[FieldChange, ...] = ()
    impact: Impact = Impact.ONLINE
    reason: str = ""
    id: str | None = None
    advice: tuple[Command, ...] = ()
    also: tuple[Action, ...] = ()
    waits: Waits | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """The weightiest action, then the others."""
        return (self.action, *self.also)


class Owed(Saved, frozen=True):
    """An obligation as plans and reports show it. `advice`: what to run once it is done.

    `earliest`: when it may be done; None where no window or freeze is in force. `forced`: until when it has
    to be done; None: nobody said.
    """

    address: Address
    work: str
    because: str
    certainty: Literal["owed", "unknown"]
    advice: tuple[Command, ...] = ()
    earliest: datetime | None = None
    forced: datetime | None = None

    def to_json(self) -> dict[str, str]:
        """All but advice and dates: it is what reports show, and what the journal keeps of a run's end."""
        return {
            "address": str(self.address),
            "work": self.work,
            "because": self.because,
            "certainty": self.certainty,
        }


def made_at(record: StateRecord) -> datetime | None:
    """When a call of ours created the object; None for an adopted one."""
    return record.created_at if record.created_at != LONG_AGO else None


def took_s(records: Iterable[StateRecord], kind: str) -> Sequence[float]:
    """How many seconds the objects of `kind` took to be ready, as far as that was seen."""
    known = (record.applied.get(READY_AFTER) for record in records if record.address.kind == kind)
    return [seconds for seconds in known if isinstance(seconds, int | float)]


def owed_work(records: Mapping[Address, StateRecord]) -> tuple[Owed, ...]:
    """Everything owed by any record."""
    return tuple(
        Owed(
            record.address,
            owed.work,
            owed.because,
            owed.certainty,
            (_done(record.address),),
            forced=owed.since + parse_span(within) if (within := record.lifecycle.restart_within) else None,
        )
        for record in records.values()
        for owed in record.obligations
    )


def overdue(owed: Iterable[Owed], at: datetime) -> Iterator[Diagnostic]:
    """A warning for each work that should have been done before `at`."""
    for work in owed:
        if work.forced is not None and work.forced <= at:
            by = f"{work.forced:%Y-%m-%d %H:%M} UTC, because {work.because}"
            done = "`, `".join(map(str, work.advice))
            yield warning(
                OWED_OVERDUE,
                f"`{work.address}`: the owed {work.work} should have been done by {by}",
                help=f"do it, and then run `{done}`; or write `restart: auto`, and apply does it",
                advice=work.advice,
                about=(work.address,),
            )


def _done(address: Address) -> Command:
    return command("resolve", address, "--restarted")
