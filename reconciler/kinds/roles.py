"""What only some kinds can be asked, each as one small class. A kind names its roles in its class line.

    sends = kind.role(SendsSecret)
    ref = sends.secret(resource) if sends is not None else None

`Declared` is a live object in the words of a manifest, as an import writes it down. The functions at the end
answer for every kind, with or without the role.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from reconciler.core.diagnostics import Diagnostic, as_warning, error
from reconciler.core.model import (
    Action,
    Address,
    FieldChange,
    Path,
    Reference,
    Relocation,
    Resource,
    StateRecord,
)
from reconciler.core.steps import PLATFORM, Read, SecretRef, Step
from reconciler.kinds.base import Decision, Kind, Power, Subject
from reconciler.kinds.manifest import Field, ManifestKind


class Declared(Struct, frozen=True):
    """`spec` holds JSON values, without `name`. `refused`: why no manifest can stand for the object.

    `comments`: by path in the manifest, what its fields cannot say. `place`: app or organization.
    `apart`: what tells the object from others of its name. `skeleton`: a person has to complete it first,
    so it is written as a comment.
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
    """The fields of `live` that a manifest has to write, in the model's order, and comments for the others.

    Left out is what equals its default and what the platform does not tell (missing or empty). A value
    that the model does not take becomes a comment. `names` are fields that the model does not require.
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
    """Its manifests hold a secret value, or say where one comes from: they are never quoted."""

    @abstractmethod
    def secret(self, resource: Resource) -> SecretRef:
        """The secret value that this resource sends, or signs with."""


class SetsSecrets(ABC):
    """It sets secrets of its app."""

    @abstractmethod
    def secret_names(self, resource: Resource | None, record: StateRecord | None) -> Collection[str]:
        """Names of the app's secrets that this address sets, or has set: nobody else may set them."""

    def app_secrets(self, address: Address, capabilities: frozenset[str]) -> Read | None:
        """The GET that lists the app's secrets, by whomever they were set. None: nothing does."""
        return None

    def may_replace(self, resource: Resource | None, name: str) -> bool:
        """Whether the manifest names the secret `name`, so that one set by others may be replaced."""
        return True


class KeepsPower(ABC):
    """It keeps a machine started, suspended or stopped."""

    @abstractmethod
    def power(self, address: Address, resource: Resource | None, record: StateRecord | None) -> Power | None:
        """The power of the machine that the manifest, or else the record, keeps: restarts go by it."""


class OnService(ABC):
    """Its objects are not the platform's, but of the service that a manifest or record names."""

    @abstractmethod
    def service(self, spec: Any, record: StateRecord | None) -> str:
        """The service that holds the object. `spec` is None when its manifest has left."""


class Importable(Kind):
    """An import can write manifests for its objects."""

    id_form: ClassVar[str] = ""  # a pattern of the platform's ids, which tells them from names of apps
    list_capability: ClassVar[str] = ""  # without it, `listing` answers None
    import_when_asked: ClassVar[bool] = False  # an import of a whole app leaves these objects out

    @abstractmethod
    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        """The GET that lists all objects of an app, or (outside apps) of an organization. None: nothing does.

        Where `read_alone`, the list need not show more than ids and names.
        """

    def place(self, resource: Resource, resources: Mapping[Address, Resource]) -> str:
        """The app, or (outside apps) the organization, of the object that `resource` wants.

        "" where the manifests, which are `resources`, do not tell.
        """
        return resource.address.app or ""

    @abstractmethod
    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        """A present live object in the words of a manifest.

        `place`: its app or organization, "" where nobody knows it. `given`: what a field has when the
        manifest is silent, where that is not the platform's default.
        """


class MadeFromOthers(ABC):
    """Its objects may be copies of others: what they are made from tells them apart, and may be renamed."""

    @abstractmethod
    def fits(self, spec: Any, record: StateRecord, alias: Callable[[Address, Address], bool]) -> bool:
        """Whether the recorded object may be the one that `spec` describes, beyond what `fields` tell.

        `alias`: whether the address that a record holds may now be the other one, in a manifest.
        """

    @abstractmethod
    def renamed(self, record: StateRecord, moved: Mapping[Address, Address]) -> Mapping[str, Any]:
        """What the record holds once the resources that it names have moved: `applied` itself if none has."""


class NamesResources(ABC):
    """Its manifests name other resources, or their apps, which an environment may have elsewhere."""

    @abstractmethod
    def follow(self, spec: Any, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """What an environment that moves resources into other apps makes of names in a manifest.

        A path and its value in this environment each; several values of one path: nobody can tell which.
        """


class TakesTime(ABC):
    """Its objects are not at rest as soon as they are made."""

    @abstractmethod
    def settled(self, subject: Subject) -> Step:
        """A step without a call that waits until the recorded object is there and at rest."""


class Resumable(ABC):
    """To make an object again goes on with the one that is half made."""

    @abstractmethod
    def is_open(self, subject: Subject) -> bool:
        """Whether not all is known to be done that making the recorded object means."""


class ComesBack(ABC):
    """An object that others destroyed can be made again with its data, at the same address."""

    @abstractmethod
    def again(self, subject: Subject) -> Decision | None:
        """What makes it from the copy that the manifest names; None: that names no copy of this object.

        Only a copy that was made of the destroyed object counts: it says that a person has decided.
        """

    @abstractmethod
    def how_again(self, subject: Subject) -> str:
        """What to write into the manifest, so that the next apply brings the data back; "": nobody knows."""


class RecordsAnswers(ABC):
    """Its record holds what an answer made of the fields sent."""

    @abstractmethod
    def held(self, record: StateRecord) -> Mapping[str, Any]:
        """What the record says of the fields: what drift is measured against."""


class HasObjectives(ABC):
    """Its manifests may hold objectives: what is wanted beside its fields, and missed as time passes."""

    objectives: ClassVar[Mapping[str, Action]]  # by objective, what meets it again

    @abstractmethod
    def objective_reads(self, subject: Subject) -> Sequence[Read]:
        """The GETs that show whether the objectives of the manifest are met; none where it has none."""

    @abstractmethod
    def missed(self, subject: Subject) -> Sequence[FieldChange]:
        """The missed objectives: what was wanted, and what is, after the answers to `objective_reads`."""

    @abstractmethod
    def due(self, subject: Subject) -> Mapping[str, datetime]:
        """When each objective will be missed if nothing is done, or has been since."""


class FillsUp(ABC):
    """Its objects fill up, and grow to the upper end of a range."""

    @abstractmethod
    def most_gb(self, spec: Any) -> int | None:
        """The upper end of the range; None where the manifest gives none."""

    @abstractmethod
    def fill(self, fields: Mapping[str, Any]) -> Mapping[str, int]:
        """What of an object, given by its fields, must not exceed that: in bytes, by name."""


class HasDetails(ABC):
    """`show` prints more of it than its own read tells."""

    @abstractmethod
    def details(self, address: Address, id: str, capabilities: frozenset[str]) -> Mapping[str, Read]:
        """More GETs that `show` prints, by name."""


def secret_of(kind: ManifestKind, resource: Resource) -> SecretRef | None:
    """The secret value that `resource` sends, if any."""
    sends = kind.role(SendsSecret)
    return sends.secret(resource) if sends is not None else None


def holds_secrets(kind: ManifestKind) -> bool:
    """Whether values written in manifests of `kind` may be secret, and so are never shown."""
    return kind.role(SendsSecret) is not None


def secret_names(
    kind: ManifestKind, resource: Resource | None, record: StateRecord | None
) -> Collection[str]:
    """Names of the app's secrets that this address sets, or has set."""
    sets = kind.role(SetsSecrets)
    return sets.secret_names(resource, record) if sets is not None else ()


def service_of(kind: ManifestKind, spec: Any, record: StateRecord | None) -> str:
    """The service that holds the object. `spec` is None when its manifest has left."""
    elsewhere = kind.role(OnService)
    return elsewhere.service(spec, record) if elsewhere is not None else PLATFORM


def claim_of(kind: ManifestKind, id: str, spec: Any, record: StateRecord | None) -> str:
    """What tells the object from all others: an id is unique within its service only."""
    service = service_of(kind, spec, record)
    return id if service == PLATFORM else f"{service}:{id}"


def object_of(
    kind: ManifestKind, address: Address, id: str, spec: Any, record: StateRecord | None
) -> tuple[str, str | None, str]:
    """What tells the object of an address from all others: a secret's name is unique in its app only."""
    app = address.app if holds_secrets(kind) else None
    return address.kind, app, claim_of(kind, id, spec, record)


def owner_of(
    kinds: Mapping[str, Kind], wanted: StateRecord, records: Iterable[StateRecord]
) -> Address | None:
    """The address of another one of `records` that is about the same object; None where there is none."""
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
    """The kind's `read`, at the service that holds the object."""
    read = kind.read(address, id, capabilities)
    service = service_of(kind, spec, record)
    return read if read is None or service == PLATFORM else replace(read, service=service)


def listed(
    kind: Kind,
    resource: Resource,
    capabilities: frozenset[str],
    resources: Mapping[Address, Resource],
) -> Read | None:
    """The list that shows whether there is an object of `resource`, whose id nobody knows; None: nothing.

    `resources`: all that the manifests declare.
    """
    if kind.match(resource.spec, resource.address) is None:
        return None
    importable = kind.role(Importable)
    place = importable.place(resource, resources) if importable is not None else ""
    return importable.listing(place, capabilities) if importable is not None and place else None


def unmanaged(kind: ManifestKind, spec: Any) -> list[Field]:
    """The fields that could be compared with the platform, and that no manifest says.

    None of a kind whose record holds what was sent; nor those that the platform changes by itself.
    """
    if kind.role(RecordsAnswers) is not None:
        return []
    comparable = (field for field in kind.fields if field.source == "live" and not field.moves)
    return [field for field in comparable if field.name not in spec.model_fields_set]


def is_remade(kind: Kind, subject: Subject) -> bool:
    """Whether a recorded object that is not there is made again, without asking."""
    resumable = kind.role(Resumable)
    return kind.remake_missing or (resumable is not None and resumable.is_open(subject))


def missing_origins(resources: Iterable[Resource]) -> Iterator[Diagnostic]:
    """A warning for each origin that no manifest declares: whether it is needed, only a record can say."""
    known = {resource.address: resource for resource in resources}
    for resource in known.values():
        if resource.references:
            for reference in absent_origins(resource, known):
                yield as_warning(unknown_origin(resource, reference, {}))


def absent_origins(resource: Resource, known: Mapping[Address, Resource]) -> Iterator[Reference]:
    return (to for to in resource.references if to.once and to.address not in known)


def unknown_origin(
    resource: Resource, origin: Reference, records: Mapping[Address, StateRecord]
) -> Diagnostic:
    """`resource` is to be made from what no manifest declares."""
    record = records.get(origin.address)
    id = f", {record.id}" if record is not None else ""
    return error(
        "unknown-reference",
        f"no manifest declares {origin.address}, from which {resource.address} is created",
        resource.span(*origin.span_path),
        help=f"correct the name, or write its platform id{id}; if {resource.address} "
        "already exists, nothing is needed",
    )
