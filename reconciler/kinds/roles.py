"""Roles, by which callers choose kinds: one small class for each. A kind names its roles as base classes.

    sends = kind.role(SendsSecret)
    ref = sends.secret(resource) if sends is not None else None

`Declared` is a live object as an import writes it into a manifest. The functions at the end answer for every
kind, with or without the role.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from reconciler.core.diagnostics import Diagnostic, as_warning, error
from reconciler.core.model import (
    SCRATCH_NAME,
    Address,
    Path,
    Reference,
    Relocation,
    Resource,
    StateRecord,
)
from reconciler.core.steps import PLATFORM, Read, SecretRef
from reconciler.core.wire import Wire
from reconciler.kinds.base import Kind, Power, Subject
from reconciler.kinds.manifest import Field, ManifestKind


class Declared(Struct, frozen=True):
    """A live object as a manifest: `spec` holds JSON values, without `name`.

    `place`: app or organization. `comments`: lines for facts that fields cannot express, by path in the
    manifest. `refused`: why no manifest can stand for the object. `apart`: a property that distinguishes the
    object from others of its name. `skeleton`: a person has to complete it first, so it is written as a
    comment.
    """

    place: str
    name: str | None
    spec: Mapping[str, Any] = field(default_factory=dict)
    comments: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    refused: str = ""
    apart: str = ""
    skeleton: bool = False


def declared_fields(
    model: type[BaseModel], names: Iterable[str], live: Any, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[Path, tuple[str, ...]]]:
    """Return the fields of `live` that a manifest has to write, in the model's order, and comments.

    Values that equal their default, and those that the platform does not show (missing or empty), are left
    out. A value that the model refuses becomes a comment. `names`: fields that the model does not require.
    """
    wanted = frozenset(names)
    fields: dict[str, Any] = {}
    comments: dict[Path, tuple[str, ...]] = {}
    for name in model.model_fields:
        value = getattr(live, name, None)
        if name not in wanted or value is None or value == "":
            continue
        try:
            value = getattr(model.model_validate({name: value}), name)
        except ValidationError:
            shown = json.dumps(value, ensure_ascii=False)
            comments["spec", name] = (
                f"{name} is {shown} on the platform; a manifest cannot contain this value",
            )
        else:
            if name not in defaults or value != defaults[name]:
                fields[name] = value
    return fields, comments


class SendsSecret(ABC):
    """Its manifests hold a secret value, or name the source of one: no message quotes them."""

    @abstractmethod
    def secret(self, resource: Resource) -> SecretRef | None:
        """Return the secret value that this resource sends, signs or connects with; None: it has none."""


class SetsSecrets(ABC):
    """It sets secrets of its app."""

    @abstractmethod
    def secret_names(self, resource: Resource | None, record: StateRecord | None) -> Collection[str]:
        """Return names of the app's secrets that this address sets, or has set: no other may set them."""

    def app_secrets(self, address: Address, capabilities: frozenset[str]) -> Read | None:
        """Return the GET that lists all secrets of the app. None: nothing does."""
        return None

    def may_replace(self, resource: Resource | None, name: str) -> bool:
        """Whether the manifest names the secret `name`, so that one set by others may be replaced."""
        return True


class KeepsPower(ABC):
    """It keeps a machine started, suspended or stopped."""

    @abstractmethod
    def power(self, address: Address, resource: Resource | None, record: StateRecord | None) -> Power | None:
        """Return the power that the manifest, or else the record, keeps the machine in: restarts heed it."""


class OnService(ABC):
    """Its objects are not on the platform, but on the service that a manifest or record names."""

    @abstractmethod
    def service(self, spec: Any, record: StateRecord | None) -> str:
        """Return the name of the service that holds the object. `spec` is None when its manifest has left."""


class Importable(Kind):
    """An import can write manifests for its objects."""

    id_form: ClassVar[str] = ""  # a pattern of the platform's ids, which tells them from names of apps
    list_capability: ClassVar[str] = ""  # without it, `listing` answers None
    import_when_asked: ClassVar[bool] = False  # an import of a whole app leaves these objects out

    @abstractmethod
    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        """Return the GET that lists all objects of an app or organization. None: nothing does.

        Where `read_alone`, the list need not show more than ids and names.
        """

    def place(self, resource: Resource, resources: Mapping[Address, Resource]) -> str:
        """Return the app, or (outside apps) the organization, of the object that `resource` wants.

        "" where the manifests, all of `resources`, do not tell.
        """
        return resource.address.app or ""

    @abstractmethod
    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """Return a present live object as a manifest declares it.

        `place`: its app or organization, "" if unknown. `given`: defaults that policies give to fields, by
        name, where they are not the platform's.
        """


class NamesResources(ABC):
    """Its manifests name other resources, or their apps, which an environment may move."""

    @abstractmethod
    def follow(self, spec: Any, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """Yield the names in a manifest that differ in an environment which moves resources to other apps.

        Pairs of a path and its value there. Several values for one path mean that none of them is certain.
        """


GIB = 2**30


_MOST = 1 << 63  # an answer with larger sizes is wrong, and nothing can be computed from them


class Look(Struct, frozen=True):
    """One look at one object. Sizes in bytes, but `size_gb`; None where the platform does not tell.

    `attached`: whether a machine holds it.
    """

    at: datetime
    size_gb: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    attached: bool | None = None

    @classmethod
    def of(cls, live: Any, at: datetime) -> "Look":
        """Return what a present object of a kind that takes space shows at that time."""
        sizes = (live.size_gb, live.used_bytes, live.total_bytes)
        gb, used, total = (size if size is None or size < _MOST else None for size in sizes)
        return cls(at, gb, used, total, live.attached)

    @property
    def percent(self) -> int | None:
        """How full it is, rounded down; None where that is not known."""
        used, total = self.used_bytes, self.total_bytes
        return used * 100 // total if used is not None and total else None

    def __str__(self) -> str:
        """How full it is: `8.6 of 10.0 GB used (86 %)`; "" where that is not known."""
        if self.used_bytes is None or not self.total_bytes:
            return ""
        used, total = (amount / GIB for amount in (self.used_bytes, self.total_bytes))
        return f"{used:.1f} of {total:.1f} GB used ({self.percent} %)"


def reserved_name(kind: ManifestKind, resource: Resource) -> Iterator[Diagnostic]:
    """Yield an error for a name that only drills give."""
    names = {"metadata": resource.address.name, "spec": getattr(resource.spec, "name", None)}
    for block, name in names.items():
        if name is not None and name.startswith(SCRATCH_NAME) and kind.role(HoldsData) is not None:
            yield error(
                "bad-name",
                f"`{name}` is a name that only restore drills give: they delete what they find under it",
                resource.span(block, "name"),
                help=f"choose a name that does not begin with `{SCRATCH_NAME}`; an object that has it "
                "already can be named by `metadata.id`",
            )


class HoldsData(Kind):
    """Its objects hold data: they take space that is paid for, and looks at them are kept.

    They can be restored into a new one, which is what a drill proves.
    """

    model: ClassVar[type[Wire]]  # of its objects, as the platform sends them
    copies: ClassVar[str]  # the word for the copies of its objects that `details` lists

    @abstractmethod
    def size_gb(self, fields: Mapping[str, Any]) -> int | None:
        """Return the size of an object, by the fields of a manifest or record; None: not known."""

    @abstractmethod
    def copied(self, copy: Any) -> tuple[datetime, int] | None:
        """Return when a copy was made, and its bytes; None for one that cannot be used."""

    @abstractmethod
    def why_no_drill(self, capabilities: frozenset[str], *, newest: bool) -> str:
        """Return why no drill can run on this platform; "" where one can. `newest`: of the newest copy."""

    @abstractmethod
    def restoring(self, source: Resource, live: Any, copy: Any, before: datetime | None) -> Any:
        """Return the spec of a new object with the data of `copy`, or those of the moment `before`."""

    def endpoint(self, live: Any, name: str) -> tuple[str, int] | None:
        """Return host and port of the endpoint `name` of a restored object; None: nobody can look into it."""
        return None


class FillsUp(HoldsData):
    """Its objects fill up. Their `spec.size_gb` is a size or a range, to the upper end of which they grow."""

    largest_gb: ClassVar[int]

    @abstractmethod
    def most_gb(self, spec: Any) -> int | None:
        """Return the upper end of the range in GB; None where the manifest gives none."""


def secret_of(kind: ManifestKind, resource: Resource) -> SecretRef | None:
    """Return the secret value that `resource` sends, if any."""
    sends = kind.role(SendsSecret)
    return sends.secret(resource) if sends is not None else None


def most_gb(kind: ManifestKind, spec: Any) -> int | None:
    """Return the upper end of the range that the object may grow in, in GB; None: there is no range."""
    fills_up = kind.role(FillsUp)
    return fills_up.most_gb(spec) if fills_up is not None else None


def holds_secrets(kind: ManifestKind) -> bool:
    """Whether values written in manifests of `kind` may be secret, and so are never shown."""
    return kind.role(SendsSecret) is not None


def secret_names(
    kind: ManifestKind, resource: Resource | None, record: StateRecord | None
) -> Collection[str]:
    """Return names of the app's secrets that this address sets, or has set."""
    sets = kind.role(SetsSecrets)
    return sets.secret_names(resource, record) if sets is not None else ()


def service_of(kind: ManifestKind, spec: Any, record: StateRecord | None) -> str:
    """Return the service that holds the object. `spec` is None when its manifest has left."""
    on_service = kind.role(OnService)
    return on_service.service(spec, record) if on_service is not None else PLATFORM


def claim_of(kind: ManifestKind, id: str, spec: Any, record: StateRecord | None) -> str:
    """Return a text that identifies the object among all of its kind: an id is unique in its service only."""
    service = service_of(kind, spec, record)
    return id if service == PLATFORM else f"{service}:{id}"


def object_of(
    kind: ManifestKind, address: Address, id: str, spec: Any, record: StateRecord | None
) -> tuple[str, str | None, str]:
    """Return what identifies the object of an address: a secret's name is unique in its app only."""
    app = address.app if holds_secrets(kind) else None
    return address.kind, app, claim_of(kind, id, spec, record)


def owner_of(
    kinds: Mapping[str, Kind], wanted: StateRecord, records: Iterable[StateRecord]
) -> Address | None:
    """Return the address of another record about the same object as `wanted`; None where there is none."""
    for record in records:
        address = record.address
        if record.id != wanted.id or address == wanted.address or address.kind != wanted.address.kind:
            continue
        both = {object_of(kinds[address.kind], one.address, one.id, None, one) for one in (record, wanted)}
        if wanted.id and len(both) == 1:
            return address
    return None


def located(
    kind: Kind,
    address: Address,
    id: str | None,
    capabilities: frozenset[str],
    spec: Any = None,
    record: StateRecord | None = None,
) -> Read | None:
    """Return the kind's `read`, at the service that holds the object."""
    read = kind.read(address, id, capabilities)
    service = service_of(kind, spec, record)
    return read if read is None or service == PLATFORM else replace(read, service=service)


def listed(
    kind: Kind,
    resource: Resource,
    capabilities: frozenset[str],
    resources: Mapping[Address, Resource],
) -> Read | None:
    """Return the list that shows whether `resource`, without a known id, has an object; None: nothing does.

    `resources`: all that the manifests declare.
    """
    if kind.match(resource.spec, resource.address) is None:
        return None
    importable = kind.role(Importable)
    place = importable.place(resource, resources) if importable is not None else ""
    return importable.listing(place, capabilities) if importable is not None and place else None


def unmanaged(kind: Kind, spec: Any) -> list[Field]:
    """Return the fields that could be compared with the platform, and that the manifest does not give.

    Fields that the platform changes by itself are left out; kinds that record answers have none.
    """
    if kind.records_answers:
        return []
    comparable = (field for field in kind.fields if field.source == "live" and not field.moves)
    return [field for field in comparable if field.name not in spec.model_fields_set]


def is_remade(kind: Kind, subject: Subject) -> bool:
    """Whether a recorded object that is gone is created again without asking."""
    return kind.remake_missing or kind.is_open(subject)


def missing_origins(resources: Iterable[Resource]) -> Iterator[Diagnostic]:
    """Warn of origins that no manifest declares: only a record can say whether they are needed."""
    known = {resource.address: resource for resource in resources}
    for resource in known.values():
        if resource.references:
            for reference in absent_origins(resource, known):
                yield as_warning(unknown_origin(resource, reference, {}))


def absent_origins(resource: Resource, known: Mapping[Address, Resource]) -> Iterator[Reference]:
    """Yield references to origins, needed only to create `resource`, that are not in `known`."""
    return (to for to in resource.references if to.once and to.address not in known)


def unknown_origin(
    resource: Resource, origin: Reference, records: Mapping[Address, StateRecord]
) -> Diagnostic:
    """Return the problem that `resource` is to be created from an origin that no manifest declares."""
    record = records.get(origin.address)
    id = f", {record.id}" if record is not None else ""
    return error(
        "unknown-reference",
        f"no manifest declares {origin.address}, from which {resource.address} is created",
        resource.span(*origin.span_path),
        help=f"correct the name, or write its platform id{id}; if {resource.address} "
        "already exists, nothing is needed",
    )
