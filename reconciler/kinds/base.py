"""What a kind declares. A kind knows and never acts: everything it answers is data.

To add a kind, copy `secret.py`: declare `Spec`, how live state is read and matched,
which fields there are, and which steps create, change and remove an object.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from reconciler.core.advice import Command
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.model import (
    Action,
    Address,
    Effect,
    FieldChange,
    Impact,
    Lifecycle,
    Path,
    Reference,
    Relocation,
    Resource,
    StateRecord,
)
from reconciler.core.steps import PLATFORM, OutputRef, Read, SecretRef, Step, Template
from reconciler.kinds.declared import Declared
from reconciler.kinds.nested import nested_changes

_ACTION_OF = {Effect.GROW: Action.EXTEND, Effect.IN_PLACE: Action.UPDATE, Effect.WRITE_ONLY: Action.SET}

# An id that a manifest may give: one segment of a path that `platform.paths.check` lets pass.
ID_PATTERN = r"[^\s./\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*"
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"  # one line, for what goes into addresses and bodies
PENDING_VALUE = "pending"  # stands for the fingerprint of a value that is known only while the plan runs


class Spec(BaseModel):
    """Base of all `spec` models: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Power(NamedTuple):
    """What a manifest, or else the record, keeps a machine: its id, the word, and whose word it is."""

    machine: str
    wanted: Literal["started", "suspended"]
    address: Address


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything known about one address when its change is decided.

    `live` is the matched wire object, None when there is none. `now` is the platform's time.
    `extra` holds answers of `Kind.extra_reads`, by their shape. `fingerprint` is that of the
    desired secret value: None when there is none or its source is not readable. `powers`: what is
    wanted of the app's machines, by id (see `Kind.power`). `sets`: who sets which of the app's
    secrets (see `Kind.secret_names`), itself included.
    """

    address: Address
    resource: Resource | None
    record: StateRecord | None
    live: Any  # a wire object, or None
    now: datetime
    capabilities: frozenset[str] = frozenset()
    extra: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fingerprint: str | None = None
    powers: Mapping[str, Power] = field(default_factory=dict)
    sets: Mapping[str, Sequence[Address]] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Moves:
    """What a kind says should happen to one subject: steps in order, and what they amount to.

    A step's `after` holds only what goes beyond "after the kind's previous step": planning adds that.
    `settles`: what the record owes is not owed any more, without a call. `advice`: the reason's commands.
    """

    action: Action
    steps: tuple[Step, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    impact: Impact = Impact.ONLINE
    reason: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    settles: bool = False
    advice: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of `Spec` that can be compared.

    `effect`: what changing it means (REFUSED: the platform cannot).
    `source`: "live", or "record" for create-only fields that the platform never returns.
    `help`: the recipe when it is refused. `equal` replaces `==` (want, live).
    """

    name: str
    effect: Effect
    source: Literal["live", "record"] = "live"
    help: str = ""
    equal: Callable[[Any, Any], bool] | None = None


class Kind(ABC):
    """The contract between the pipeline, which acts, and one kind, which only knows."""

    name: ClassVar[str]
    Spec: ClassVar[type[Spec]]
    in_app: ClassVar[bool]  # addresses carry an app, and manifests need `metadata.app`
    owns_objects: ClassVar[bool] = True  # False: resolved while loading, has no record
    name_pattern: ClassVar[str] = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
    fields: ClassVar[tuple[Field, ...]] = ()
    # What changing a field of `Spec` means that is not in `fields`, or one below it (`size_gb.min`).
    remarks: ClassVar[Mapping[str, str]] = {}
    example: ClassVar[Mapping[str, Any]] = {}  # a `spec`, for `reconcile explain`
    remake_missing: ClassVar[bool] = False  # an object that vanished may be made again: it holds no data
    hides_at_first: ClassVar[bool] = True  # reads need not show an object that was made a moment ago
    read_alone: ClassVar[bool] = (
        False  # `read` asks for the object itself: its 404 means that it is not there
    )
    id_path: ClassVar[Path] = ("metadata", "id")  # where a manifest names an existing object
    takes_over: ClassVar[bool] = True  # to record an existing object is a change of its own: an adoption
    unreadable: ClassVar[str] = "write-only"  # why `read` shows nothing
    id_form: ClassVar[str] = ""  # a pattern of the platform's ids, which tells them from names of apps
    list_capability: ClassVar[str] = ""  # without it, `listing` answers None
    import_when_asked: ClassVar[bool] = False  # an import of a whole app leaves these objects out

    # --- while loading ---

    def references(self, spec: Any, address: Address) -> Iterable[Reference]:
        """The addresses whose values `spec` needs."""
        return ()

    def check(self, spec: Any, span: Callable[..., Span | None]) -> Iterable[Diagnostic]:
        """Problems that field types cannot express. `span(*path)` locates a value of the manifest.

        `spec` may lack invalid fields, which are then their defaults; ask `model_fields_set` whether
        something was written.
        """
        return ()

    def scope(self, spec: Any, address: Address) -> str:
        """The lease's scope."""
        return address.app or "-"

    def secret(self, resource: Resource) -> SecretRef | None:
        """The secret value that this resource sends, if any."""
        return None

    def power(self, address: Address, resource: Resource | None, record: StateRecord | None) -> Power | None:
        """The power of the machine that the manifest, or else the record, keeps: restarts go by it."""
        return None

    def secret_names(self, resource: Resource | None, record: StateRecord | None) -> Collection[str]:
        """Names of the app's secrets that this address sets, or has set: nobody else may set them."""
        return ()

    def gives(self, spec: Any, resource: Resource) -> Mapping[str, Any]:
        """What `spec` of a kind that owns no objects gives `resource`, whatever the resource itself says.

        Names of fields of the resource's spec become defaults there; other names become objectives.
        """
        return {}

    def follow(self, spec: Any, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """What an environment that moves resources into other apps makes of names in a manifest.

        A path and its value in this environment each; several values of one path: nobody can tell which.
        """
        return ()

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        """The GET whose answer shows this object, shared by all of one list. None: nothing shows it."""
        return None

    def service(self, spec: Any, record: StateRecord | None) -> str:
        """The service that holds the object. `spec` is None when its manifest has left."""
        return PLATFORM

    def claim(self, id: str, spec: Any, record: StateRecord | None) -> str:
        """What tells the object from all others: an id is unique within its service only."""
        service = self.service(spec, record)
        return id if service == PLATFORM else f"{service}:{id}"

    def located(
        self,
        address: Address,
        id: str | None,
        capabilities: frozenset[str],
        spec: Any = None,
        record: StateRecord | None = None,
    ) -> Read | None:
        """`read`, at the service that holds the object."""
        read = self.read(address, id, capabilities)
        service = self.service(spec, record)
        return read if read is None or service == PLATFORM else replace(read, service=service)

    def extra_reads(self, subject: Subject) -> Sequence[Read]:
        """More GETs that deciding about this subject needs."""
        return ()

    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        """More GETs that `show` prints, by name."""
        return {}

    def match(self, spec: Any, address: Address) -> Mapping[str, Any] | None:
        """Fields by which an object without a record is recognised; None: by recorded id only."""
        return None

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        """The GET that lists all objects of an app, or (outside apps) of an organization. None: nothing does.

        Where `read_alone`, the list need not show more than ids and names.
        """
        return None

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared | None:
        """A present live object in the words of a manifest; None for kinds that are not imported.

        `place`: its app or organization, "" where nobody knows it. `given`: what a field has when the
        manifest is silent, where that is not the platform's default.
        """
        return None

    # --- moving to another address ---

    def fits(self, spec: Any, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
        """Whether the recorded object may be the one that `spec` describes, beyond what `fields` tell.

        `alias`: whether the address that a record holds may be the other one, in a manifest, by now.
        """
        return True

    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """What the record holds once the resources that it names have moved: `applied` itself if none has."""
        return record.applied

    # --- deciding ---

    def remakes(self, subject: Subject) -> bool:
        """Whether a recorded object that is not there is made again, without asking."""
        return self.remake_missing

    @abstractmethod
    def create(self, subject: Subject) -> Moves:
        """There is no object yet."""

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """The managed fields that differ, in the order of `fields`."""
        return compare_fields(self.fields, subject)

    def action_of(self, change: FieldChange) -> Action:
        """What brings a field that moved from `before` to `after` back; REFUSED where nothing does."""
        return _ACTION_OF.get(change.effect, Action.REFUSED)

    def managed(self, subject: Subject) -> dict[str, Any]:
        """The live values of the fields that the manifest manages; what the record then holds of them."""
        written = subject.spec.model_fields_set
        values = {}
        for each in self.fields:
            if each.source == "live" and each.name in written:
                value = getattr(subject.live, each.name, None)
                if value is not None:
                    values[each.name] = value
        return values

    def held(self, record: StateRecord, resource: Resource | None) -> Mapping[str, Any]:
        """What the record says of the fields that are managed: what drift is measured against."""
        if resource is None:
            return record.applied
        managed = resource.spec.model_fields_set
        return {name: value for name, value in record.applied.items() if name in managed}

    def as_found(self, subject: Subject, names: Collection[str]) -> Any:
        """The spec that wants the fields `names` as they are, so that no call puts them back."""
        recorded = subject.record.applied if subject.record is not None else {}
        found = {}
        for each in self.fields:
            known = (
                getattr(subject.live, each.name, None) if each.source == "live" else recorded.get(each.name)
            )
            if each.name in names and known is not None:
                found[each.name] = known
        return subject.spec.model_copy(update=found)

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Moves:
        """The object exists; `fields` differ: none refused, possibly none at all (waits, objectives)."""
        return Moves(Action.NOOP)

    def settled(self, subject: Subject) -> Step | None:
        """A step without a call that waits until the recorded object is there and at rest."""
        return None

    def remove(self, subject: Subject) -> Moves:
        """The manifest is gone and the record's lifecycle says delete."""
        return Moves(Action.RETAIN)

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        """Fields of the live object that must not move before `action`, beside the managed ones."""
        return ("id", "present")

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        """Why a refused field cannot change, at its place, with the recipe."""
        name = change.path.partition(".")[0]
        recipe = next((field.help for field in self.fields if field.name == name), "")
        return error(
            "immutable-field",
            f"{self.name} `{subject.address.name}` cannot change `{change.path}` "
            f"from {change.before} to {change.after}",
            subject.span("spec", *change.path.split(".")),
            label=f"it is {change.before} since its creation",
            help=recipe,
        )


def compare_fields(fields: Iterable[Field], subject: Subject) -> list[FieldChange]:
    """The fields of the manifest whose value is known to differ.

    A field that nobody wrote, and a field that is missing on the other side, is not a difference.
    """
    spec = subject.spec
    written = spec.model_fields_set
    recorded = subject.record.applied if subject.record is not None else {}
    differing: list[FieldChange] = []
    for each in fields:
        if each.name not in written:
            continue
        want = getattr(spec, each.name)
        known = getattr(subject.live, each.name, None) if each.source == "live" else recorded.get(each.name)
        if want is None or known is None or known == want:
            continue
        if each.equal is not None and each.equal(want, known):
            continue
        if isinstance(want, BaseModel):
            want = want.model_dump(exclude_none=True)
            if isinstance(known, Mapping):
                if known != want:
                    differing += nested_changes(each.name, known, want, each.effect)
                continue
        differing.append(FieldChange(each.name, known, want, each.effect))
    return differing


def segment(value: str) -> str:
    """`value` as one segment of a URL path."""
    return quote(value, safe="")


def path_of(*parts: str | OutputRef) -> str | Template:
    """A path from its parts: plain text where everything is known, else a template."""
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    return Template(parts)
