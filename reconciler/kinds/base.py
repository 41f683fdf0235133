"""The contract of a kind. A kind knows and never acts: all its answers are data.

To add a kind, copy the folder `secret/`: declare `Spec`, how live state is read and matched,
which fields there are, and which steps create, change and remove an object. A nested value, such as
`compute`, differs by one change for every value in it that differs (`nested_changes`).

A call that creates something is made by `steps.create`. Its `id_path` names the id in the answer ("id",
or "data.id"), and `object_path` the object whose fields later steps may use ("" for the whole answer).
Its recovery says how a lost answer is found: `Find(listing, match)`, with `one` where a list may lag behind
the object itself.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import quote

from msgspec import Struct, field
from pydantic import BaseModel

from reconciler.core.advice import Command
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.lookup import NOTHING, Lookup
from reconciler.core.model import (
    Action,
    Address,
    Deletion,
    Effect,
    FieldChange,
    Impact,
    Lifecycle,
    Resource,
    StateRecord,
)
from reconciler.core.steps import OutputRef, Read, Step, Template
from reconciler.core.wire import Shape
from reconciler.kinds.manifest import Field, ManifestKind

UNCHECKED_VALUE = "unchecked"  # stands for the fingerprint of a value that is not read while planning
PENDING_VALUE = "pending"  # stands for the fingerprint of a value that is known only while the plan runs


class Power(NamedTuple):
    """The power that a manifest, or else a record, keeps a machine in, and the address that says so."""

    machine: str
    wanted: Literal["started", "suspended", "stopped"]
    address: Address


class Subject(Struct, frozen=True):
    """Everything known about one address when its change is decided.

    `live` is the matched wire object, None when there is none. `now` is the platform's time.
    `extra` holds answers to `Kind.extra_reads`, by their shape. `fingerprint` is that of the
    desired secret value: None when there is none or its source is not readable. `powers`: the power
    wanted of the app's machines, by id (see `roles.KeepsPower`). `sets`: the addresses that set the app's
    secrets, by name (see `roles.SetsSecrets`), itself included. `made`: the addresses that it refers to and
    that this plan creates. `others_s`: how many seconds other objects of its kind took to be ready.
    `neighbours`: for an object to be created, those in the list that will show it. `referred`: the ids of
    recorded objects that it refers to. `extended_gb`: how many GB were added to it by calls of ours within
    24 hours, where its manifest makes it grow.
    """

    address: Address
    resource: Resource | None
    record: StateRecord | None
    live: Any  # a wire object, or None
    now: datetime
    capabilities: frozenset[str] = frozenset()
    extra: Mapping[Shape, Sequence[Any]] = field(default_factory=dict)
    fingerprint: str | None = None
    powers: Mapping[str, Power] = field(default_factory=dict)
    sets: Mapping[str, Sequence[Address]] = field(default_factory=dict)
    made: frozenset[Address] = frozenset()
    others_s: Sequence[float] = ()
    neighbours: Lookup = NOTHING
    referred: Mapping[Address, str] = field(default_factory=dict)
    extended_gb: int = 0

    @property
    def lifecycle(self) -> Lifecycle:
        """The manifest's lifecycle, or else the recorded one."""
        if self.resource is not None:
            return self.resource.lifecycle
        return self.record.lifecycle if self.record is not None else Lifecycle()

    @property
    def spec(self) -> Any:
        """The spec of the manifest, which must exist."""
        assert self.resource is not None
        return self.resource.spec

    @property
    def to_delete(self) -> bool:
        """Whether the manifest has left, and its object is to be deleted."""
        return self.resource is None and self.lifecycle.deletion is not Deletion.RETAIN

    def known_id(self) -> str | OutputRef:
        """Return the platform's id, or a reference to the one in the answer to an earlier step."""
        if self.live is not None:
            return str(self.live.id)
        if self.record is not None and self.record.id:
            return self.record.id
        return OutputRef(str(self.address), "id")

    def platform_name(self) -> str:
        """Return its name on the platform: `spec.name`, or else `metadata.name`."""
        return self.spec.name or self.address.name

    def span(self, *path: str | int) -> Span | None:
        """Return where the manifest holds the value at `path`; None without a manifest."""
        return self.resource.span(*path) if self.resource is not None else None


class Decision(Struct, frozen=True):
    """The answer of a kind about one subject: steps in order, and what they amount to.

    The steps run one after another; a step's `after` names only others that it has to wait for, too.
    `settles`: the record's obligations have ended without a call. `advice`: the reason's commands.
    `action` is the weightiest action, `also` holds the others. `impact`: what users of the object notice.
    """

    action: Action
    steps: tuple[Step, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    impact: Impact = Impact.ONLINE
    reason: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    settles: bool = False
    advice: tuple[Command, ...] = ()
    also: tuple[Action, ...] = ()


class Watched(NamedTuple):
    """A field of a live object that no manifest sets, and that shows its health, identity or relations.

    `bad`: the values that are never right, and `good` one that is. `owed`: it names the machine that owes a
    restart, while one is owed. Without either, every value is drift but the recorded one, which is from when
    the object was first seen. `says`: the warning, with `{before}` and `{after}`; `code`: its code.
    """

    path: str
    code: str
    says: str
    bad: tuple[Any, ...] = ()
    good: str = ""
    owed: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether the right value is the recorded one."""
        return not self.bad and not self.owed


REPLACED = Watched(
    "created_at", "object-replaced", "another object has its id: it was created at {after}, ours at {before}"
)


class AtRest(NamedTuple):
    """The `values` of `field` that mean: the object exists, and no operation is running.

    A recorded object at rest needs no further reads and no change, and the kind is not asked about it, if
    it equals its manifest in all `Kind.fields`, owes nothing, has no objectives, and its record holds
    nothing at the names `unless_recorded`.
    """

    field: str
    values: frozenset[str]
    unless_recorded: tuple[str, ...] = ()


class Kind(ManifestKind):
    """The contract between planning and apply, which act, and one kind of object, which only knows.

    Callers choose kinds by their roles: see `kinds.roles`.
    """

    remake_missing: ClassVar[bool] = False  # an object that vanished may be created again: it holds no data
    hides_at_first: ClassVar[bool] = True  # reads need not show an object that was created a moment ago
    read_alone: ClassVar[bool] = False  # `read` asks for the object itself: a 404 means that it is gone
    takes_over: ClassVar[bool] = True  # to record an existing object is a change of its own: an adoption
    at_rest: ClassVar[AtRest | None] = None  # None: the kind is asked about every object
    watched: ClassVar[tuple[Watched, ...]] = ()
    # Undocumented parts of the platform that it can use, and what for: settings may enable them by name.
    capabilities: ClassVar[Mapping[str, str]] = {}
    # The word for its objects in paths (`machines` in /v1/apps/APP/machines/ID), if the platform's rate limit
    # counts the requests of one object alone. Source: platform notes, "Errors, limits, headers".
    counted_alone: ClassVar[str] = ""
    unreadable: ClassVar[str] = "write-only"  # why `read` shows nothing
    records_answers: ClassVar[bool] = False  # its record holds fields as answered, which may not be as sent
    # Goals apart from its fields, which are missed as time passes: by name, the action that meets it again.
    objectives: ClassVar[Mapping[str, Action]] = {}

    def scope(self, spec: Any, address: Address) -> str:
        """Return the scope of the lease that protects the object: its app, or "-"."""
        return address.app or "-"

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        """Return the GET that shows this object; all objects of one list share it. None: nothing does."""
        return None

    def extra_reads(self, subject: Subject) -> Sequence[Read]:
        """Return more GETs that a decision about this subject needs."""
        return ()

    def origin_reads(self, subject: Subject) -> Sequence[Read]:
        """Return the GETs that show whether a new object can be created from its origin."""
        return ()

    def hints(self, subject: Subject) -> Sequence[Read]:
        """Return GETs that only inform people: without an answer, `extra` lacks it and the plan goes on.

        Also asked about an object without a manifest that the platform does not show any more.
        """
        return ()

    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        """Return more GETs whose answers `show` prints, by name."""
        return {}

    def match(self, spec: Any, address: Address) -> Mapping[str, Any] | None:
        """Return fields that recognise an object without a record; None: only a recorded id does."""
        return None

    # --- objects that are copies of others: their origin distinguishes them, and may be renamed ---

    def fits(self, spec: Any, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
        """Whether the recorded object may be the one that `spec` describes, apart from its `fields`.

        `alias`: whether the first address, of a record, may now be the second, of a manifest.
        """
        return True

    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """Return `record.applied` after the resources that it names have moved; itself if none has."""
        return record.applied

    # --- objectives ---

    def objective_reads(self, subject: Subject) -> Sequence[Read]:
        """Return the GETs that show whether the manifest's objectives are met; none without objectives."""
        return ()

    def missed(self, subject: Subject) -> Sequence[FieldChange]:
        """Return the missed objectives, wanted (`before`) and actual, after answers to `objective_reads`."""
        return ()

    def due(self, subject: Subject) -> Mapping[str, datetime]:
        """Return when every objective will be missed if nothing is done, or since when it has been."""
        return {}

    # --- deciding ---

    @abstractmethod
    def create(self, subject: Subject) -> Decision:
        """Decide about an address without an object."""

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """Return the managed fields that differ, in the order of `fields`."""
        return compare_fields(self.fields, subject)

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Decide about an existing object whose `fields` differ.

        None of them is refused; there may be none at all, where only waits or objectives are left.
        """
        return Decision(Action.NOOP)

    def remove(self, subject: Subject) -> Decision:
        """Decide about an object whose manifest has left, and whose recorded lifecycle says delete."""
        return Decision(Action.RETAIN)

    def settled(self, subject: Subject) -> Step | None:
        """Return a step without a call that waits until the recorded object exists and is at rest.

        None: objects of the kind need no time after they were created.
        """
        return None

    def is_open(self, subject: Subject) -> bool:
        """Whether a part of its creation is not known to be done; then a second create continues it."""
        return False

    def again(self, subject: Subject) -> Decision | None:
        """Decide to create an object that others destroyed, from the copy that the manifest names.

        None: that is not a copy of this object. Only a copy of the destroyed object counts, because it shows
        that a person has decided.
        """
        return None

    def how_again(self, subject: Subject) -> str:
        """Return what to write into the manifest so that the next apply restores the data; "": unknown."""
        return ""

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        """Return fields of the live object, besides the managed ones, that must not move before `action`."""
        return ("id", "present")

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        """Return why a refused field cannot change, at its place, with the recipe."""
        name = change.path.partition(".")[0]
        recipe = next((field.help for field in self.fields if field.name == name), "")
        was, wanted = ("nothing" if value is None else value for value in (change.before, change.after))
        return error(
            "immutable-field",
            f"{self.name} `{subject.address.name}` cannot change `{change.path}` from {was} to {wanted}",
            subject.span("spec", *parts_of(change.path)),
            label=f"it is {was} since its creation",
            help=recipe,
        )

    def held(self, record: StateRecord, resource: Resource | None) -> Mapping[str, Any]:
        """Return the recorded values of the managed fields, which drift is measured against."""
        if resource is None:
            return record.applied
        managed = resource.spec.model_fields_set
        return {name: value for name, value in record.applied.items() if name in managed}

    def known_from(self, record: StateRecord) -> str:
        """Return where the recorded fields are from, and since when, for people."""
        return f"what was recorded first at {record.created_at:%Y-%m-%dT%H:%M:%SZ}"

    def managed(self, subject: Subject) -> dict[str, Any]:
        """Return the live values of the managed fields, as the record will hold them."""
        written = subject.spec.model_fields_set
        values = {}
        for declared in self.fields:
            value = getattr(subject.live, declared.name, None) if declared.source == "live" else None
            if value is not None and declared.name in written:
                values[declared.name] = value
        return values

    def as_found(self, subject: Subject, names: Collection[str]) -> Any:
        """Return the spec with the fields `names` as they are, so that no call puts them back."""
        found = {}
        for declared in self.fields:
            known = _known_value(declared, subject)
            if declared.name in names and known is not None:
                found[declared.name] = known
        return subject.spec.model_copy(update=found)


def compare_fields(fields: Iterable[Field], subject: Subject) -> list[FieldChange]:
    """Return the fields of the manifest whose value is known to differ.

    A field that nobody wrote, or that the other side does not show, is not a difference.
    """
    spec = subject.spec
    written = spec.model_fields_set
    differing: list[FieldChange] = []
    for declared in fields:
        if declared.name not in written:
            continue
        want, known = getattr(spec, declared.name), _known_value(declared, subject)
        if want is None or known is None or known == want:
            continue
        if declared.equal is not None and declared.equal(want, known):
            continue
        if isinstance(want, BaseModel):
            want = want.model_dump(exclude_none=True)
            if isinstance(known, Mapping):
                if known != want:
                    differing += nested_changes(declared.name, known, want, declared.effect)
                continue
        differing.append(FieldChange(declared.name, known, want, declared.effect))
    return differing


def _known_value(declared: Field, subject: Subject) -> Any:
    """Return what the platform shows of a field, or else the record; None where neither tells."""
    if declared.source == "live":
        return getattr(subject.live, declared.name, None)
    return subject.record.applied.get(declared.name) if subject.record is not None else None


def value_at(live: Any, path: str) -> Any:
    """Return the value of a live object at a dotted path; None where it shows none."""
    for name in path.split("."):
        live = getattr(live, name, None)
    return live


def segment(value: str) -> str:
    """Return `value` as one segment of a URL path."""
    return quote(value, safe="")


def path_of(*parts: str | OutputRef) -> str | Template:
    """Return a path from its parts: plain text where all are known, else a template."""
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    return Template(parts)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PART = re.compile(r'\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+|"(?:[^"\\]|\\.)*")\]')
# deepdiff's words for a name that only one side has: such a field is not managed, or not known.
_ONE_SIDED = ("dictionary_item_added", "dictionary_item_removed")


def nested_changes(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], effect: Effect
) -> Iterator[FieldChange]:
    """Yield the values inside `after` that differ in `before`, in the order of `after`, with full paths.

    A name that only one of the two holds is not a difference, at any depth. An item that only one of two
    lists holds is compared with None.
    """
    from deepdiff import DeepDiff  # 0.1 s: only once something does differ
    from deepdiff.helper import notpresent

    tree = DeepDiff(before, after, view="tree")
    order = {name: number for number, name in enumerate(after)}
    found = [
        (item.path(output_format="list"), item)
        for group, items in tree.items()
        if group not in _ONE_SIDED
        for item in items
    ]
    for parts, item in sorted(found, key=lambda item: [order[item[0][0]], *item[0][1:]]):
        known, want = (None if value is notpresent else value for value in (item.t1, item.t2))
        yield FieldChange(joined([path, *parts]), known, want, effect)


def joined(parts: Sequence[str | int]) -> str:
    """Return a path as `compute.kernel_args[1]`; an unusual name is in quotes: `config["a.b"]`."""
    text = ""
    for part in parts:
        if isinstance(part, str) and _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def parts_of(path: str) -> list[str | int]:
    """Split a path that `joined` made."""
    return [name or json.loads(other) for name, other in _PART.findall(path)]
