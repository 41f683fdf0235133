"""What a kind declares. A kind knows and never acts: everything it answers is data.

To add a kind, copy the folder `secret/`: declare `Spec`, how live state is read and matched,
which fields there are, and which steps create, change and remove an object. A nested value, such as
`compute`, differs by a change for each value in it (`nested_changes`).
"""

import json
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """What a manifest, or else the record, keeps a machine: its id, the word, and whose word it is."""

    machine: str
    wanted: Literal["started", "suspended", "stopped"]
    address: Address


class Subject(Struct, frozen=True):
    """Everything known about one address when its change is decided.

    `live` is the matched wire object, None when there is none. `now` is the platform's time.
    `extra` holds answers of `Kind.extra_reads`, by their shape. `fingerprint` is that of the
    desired secret value: None when there is none or its source is not readable. `powers`: what is
    wanted of the app's machines, by id (see `roles.KeepsPower`). `sets`: who sets which of the app's
    secrets (see `roles.SetsSecrets`), itself included. `made`: of what it refers to, what this plan makes.
    `others_s`: how many seconds others of its kind took to be ready.
    `beside`: where it is to be made, what the list shows in which it would stand. `referred`: the ids of
    recorded objects that it refers to.
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
    beside: Lookup = NOTHING
    referred: Mapping[Address, str] = field(default_factory=dict)

    @property
    def lifecycle(self) -> Lifecycle:
        """The manifest's, or what the record kept of it."""
        if self.resource is not None:
            return self.resource.lifecycle
        return self.record.lifecycle if self.record is not None else Lifecycle()

    @property
    def spec(self) -> Any:
        assert self.resource is not None
        return self.resource.spec

    @property
    def to_delete(self) -> bool:
        """Whether the manifest is gone, and the object is to go, too."""
        return self.resource is None and self.lifecycle.deletion is Deletion.DELETE

    def known_id(self) -> str | OutputRef:
        """The platform's id, or a reference to the one that an earlier step will bring."""
        if self.live is not None:
            return str(self.live.id)
        if self.record is not None and self.record.id:
            return self.record.id
        return OutputRef(str(self.address), "id")

    def platform_name(self) -> str:
        """What the platform calls it: `spec.name`, or else `metadata.name`."""
        return self.spec.name or self.address.name

    def span(self, *path: str | int) -> Span | None:
        return self.resource.span(*path) if self.resource is not None else None


class Decision(Struct, frozen=True):
    """What a kind says should happen to one subject: steps in order, and what they amount to.

    A step's `after` holds only what goes beyond "after the kind's previous step": planning adds that.
    `settles`: what the record owes is not owed any more, without a call. `advice`: the reason's commands.
    `also`: what is done beside `action`, which is the weightiest.
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
    restart, while one is owed. Else each value is drift but the one that the record has since the object was
    first seen. `says`: the warning, with `{before}` and `{after}`; `code`: of that warning.
    """

    path: str
    code: str
    says: str
    bad: tuple[Any, ...] = ()
    good: str = ""
    owed: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether the record has the value that is right."""
        return not self.bad and not self.owed


REPLACED = Watched(
    "created_at", "object-replaced", "another object has its id: it was created at {after}, ours at {before}"
)


class AtRest(NamedTuple):
    """By which `values` of its `field` a live object shows that it is there, and nothing under way.

    A recorded one that shows one of them, equals its manifest in all `Kind.fields`, owes nothing, has no
    objectives, and whose record holds nothing at the names `unless_recorded`, needs nothing: no further
    reads, and no change. The kind is not asked about it.
    """

    field: str
    values: frozenset[str]
    unless_recorded: tuple[str, ...] = ()


class Kind(ManifestKind):
    """The contract between the pipeline, which acts, and one kind of object, which only knows.

    What only some kinds can be asked is a role: see `kinds.roles`.
    """

    remake_missing: ClassVar[bool] = False  # an object that vanished may be made again: it holds no data
    hides_at_first: ClassVar[bool] = True  # reads need not show an object that was made a moment ago
    read_alone: ClassVar[bool] = (
        False  # `read` asks for the object itself: its 404 means that it is not there
    )
    takes_over: ClassVar[bool] = True  # to record an existing object is a change of its own: an adoption
    at_rest: ClassVar[AtRest | None] = None  # None: it is asked about each object
    watched: ClassVar[tuple[Watched, ...]] = ()
    # What it can use of the platform beside what the API documents, and what for: settings may name it.
    capabilities: ClassVar[Mapping[str, str]] = {}
    # What its paths call its objects (`/v1/apps/APP/machines/ID`), if the platform's rate limit counts the
    # requests for each object alone. Source: platform notes, "Errors, limits, headers".
    counted_alone: ClassVar[str] = ""
    unreadable: ClassVar[str] = "write-only"  # why `read` shows nothing

    def scope(self, spec: Any, address: Address) -> str:
        """The lease's scope."""
        return address.app or "-"

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        """The GET whose answer shows this object, shared by all of one list. None: nothing shows it."""
        return None

    def extra_reads(self, subject: Subject) -> Sequence[Read]:
        """More GETs that deciding about this subject needs."""
        return ()

    def origin_reads(self, subject: Subject) -> Sequence[Read]:
        """GETs that show whether a new object can be made from its origin."""
        return ()

    def hints(self, subject: Subject) -> Sequence[Read]:
        """GETs that only tell people more: where one cannot be answered, `extra` lacks it.

        Also of an object without a manifest that is not shown any more.
        """
        return ()

    def match(self, spec: Any, address: Address) -> Mapping[str, Any] | None:
        """Fields by which an object without a record is recognised; None: by recorded id only."""
        return None

    # --- deciding ---

    @abstractmethod
    def create(self, subject: Subject) -> Decision:
        """There is no object yet."""

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """The managed fields that differ, in the order of `fields`."""
        return compare_fields(self.fields, subject)

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """The object exists; `fields` differ: none refused, possibly none at all (waits, objectives)."""
        return Decision(Action.NOOP)

    def remove(self, subject: Subject) -> Decision:
        """The manifest is gone and the record's lifecycle says delete."""
        return Decision(Action.RETAIN)

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        """Fields of the live object that must not move before `action`, beside the managed ones."""
        return ("id", "present")

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        """Why a refused field cannot change, at its place, with the recipe."""
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

    def known_from(self, record: StateRecord) -> str:
        """Where what the record holds of the object is from, and since when."""
        return f"what was recorded first at {record.created_at:%Y-%m-%dT%H:%M:%SZ}"

    def managed(self, subject: Subject) -> dict[str, Any]:
        """The live values of the fields that the manifest manages; what the record then holds of them."""
        written = subject.spec.model_fields_set
        values = {}
        for declared in self.fields:
            value = getattr(subject.live, declared.name, None) if declared.source == "live" else None
            if value is not None and declared.name in written:
                values[declared.name] = value
        return values

    def as_found(self, subject: Subject, names: Collection[str]) -> Any:
        """The spec that wants the fields `names` as they are, so that no call puts them back."""
        found = {}
        for declared in self.fields:
            known = _known_value(declared, subject)
            if declared.name in names and known is not None:
                found[declared.name] = known
        return subject.spec.model_copy(update=found)


def compare_fields(fields: Iterable[Field], subject: Subject) -> list[FieldChange]:
    """The fields of the manifest whose value is known to differ.

    A field that nobody wrote, and a field that is missing on the other side, is not a difference.
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
    """What a live object shows at a dotted path; None where nothing does."""
    for name in path.split("."):
        live = getattr(live, name, None)
    return live


def segment(value: str) -> str:
    """`value` as one segment of a URL path."""
    return quote(value, safe="")


def path_of(*parts: str | OutputRef) -> str | Template:
    """A path from its parts: plain text where everything is known, else a template."""
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    return Template(parts)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PART = re.compile(r'\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+|"(?:[^"\\]|\\.)*")\]')
# What deepdiff calls a name that only one side has: such a field is not managed, or not known.
_ONE_SIDED = ("dictionary_item_added", "dictionary_item_removed")


def nested_changes(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], effect: Effect
) -> Iterator[FieldChange]:
    """The values inside `after` that are others in `before`, in the order of `after`, with their full paths.

    A name that only one of the two holds is not a difference, at any depth. In a list, what only one of the
    two holds stands against None.
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
    """`compute.kernel_args[1]`; a name that is not plain stands in quotes: `config["a.b"]`."""
    text = ""
    for part in parts:
        if isinstance(part, str) and _NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def parts_of(path: str) -> list[str | int]:
    """The opposite of `joined`."""
    return [name or json.loads(other) for name, other in _PART.findall(path)]
