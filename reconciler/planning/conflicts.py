"""What manifests and records say together of one machine or one secret: several may speak of the same."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Severity, error
from reconciler.core.model import BAD_ANSWER, Address, Resource, StateRecord
from reconciler.core.wire import is_id
from reconciler.core.words import in_a_row
from reconciler.kinds.base import Kind, Power
from reconciler.kinds.roles import KeepsPower, SendsSecret, SetsSecrets, holds_secrets, object_of

Setters = Mapping[str | None, Mapping[str, Sequence[Address]]]  # of secrets, by app and name


def wanted_powers(
    kinds: Mapping[str, Kind],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    not_given: Collection[Address],
) -> Mapping[str | None, Mapping[str, Power]]:
    """What is wanted of machines, by app and id: after the manifests, also those not given.

    `not_given`: addresses whose manifest, if there is one, is in a file that was not given.
    """
    powers: dict[str | None, dict[str, Power]] = {}
    keepers = {name: role for name, kind in kinds.items() if (role := kind.role(KeepsPower)) is not None}
    for address in _named(keepers, resources, records):
        resource, record = resources.get(address), records.get(address)
        if resource is None and address not in not_given:
            continue  # its manifest has left: nobody wants anything of it
        power = keepers[address.kind].power(address, resource, record)
        if power is not None:
            powers.setdefault(address.app, {})[power.machine] = power
    return powers


def secret_setters(
    kinds: Mapping[str, Kind], resources: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
) -> Setters:
    """Who sets which secret: after the manifests, and after the records of all others."""
    setters: dict[str | None, dict[str, list[Address]]] = {}
    setting = {name: role for name, kind in kinds.items() if (role := kind.role(SetsSecrets)) is not None}
    for address in _named(setting, resources, records):
        for name in setting[address.kind].secret_names(resources.get(address), records.get(address)):
            setters.setdefault(address.app, {}).setdefault(name, []).append(address)
    return setters


def taken_secrets(
    kinds: Mapping[str, Kind], resources: Mapping[Address, Resource], setters: Setters
) -> Iterator[tuple[Address, Diagnostic]]:
    """A secret that came with another object is not set to anything else by a manifest."""
    for app, by_name in setters.items():
        for name, addresses in by_name.items():
            for address in addresses:
                resource = resources.get(address)
                owner = next((other for other in addresses if other.kind != address.kind), None)
                if owner is None or resource is None or kinds[address.kind].role(SendsSecret) is None:
                    continue
                forget = command("state", "forget", owner)
                yield (
                    address,
                    error(
                        "secret-taken",
                        f"`{address}` names the secret `{name}` of app `{app}`, which `{owner}` has set",
                        resource.span("metadata", "name"),
                        help=f"remove this manifest or rename it; if `{owner}` no longer exists, run "
                        f"`{forget}`",
                        advice=(forget,),
                    ),
                )


def _named(
    kinds: Container[str], resources: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
) -> Iterator[Address]:
    yield from (address for address in resources if address.kind in kinds)
    yield from (address for address in records if address.kind in kinds and address not in resources)


_FORM = "ids have letters, digits, `.`, `_`, `~` and `-`, and begin with a letter or digit"


def bad_records(
    kinds: Mapping[str, Kind], records: Mapping[Address, StateRecord], resources: Mapping[Address, Resource]
) -> Mapping[Address, Diagnostic]:
    """An error for each record whose object has no id that can be used.

    Its service answered with none (`BAD_ANSWER`), or the record holds it: earlier versions recorded whatever
    was answered.
    """
    found = {}
    for address, record in records.items():
        kind = kinds.get(address.kind)
        if record.applied.get(BAD_ANSWER):
            found[address] = _bad_answer(address, resources.get(address))
            continue
        if is_id(record.id) or not record.id or kind is None or holds_secrets(kind):
            continue
        resource, forget = resources.get(address), command("state", "forget", address)
        found[address] = error(
            "bad-id",
            f"`{address}` is recorded with an invalid id: `{record.id}`",
            resource.span("metadata", "name") if resource is not None else None,
            help=f"{_FORM}; `{forget}` drops the record, and does not change the object",
            advice=(forget,),
        )
    return found


def _bad_answer(address: Address, resource: Resource | None) -> Diagnostic:
    forget = command("state", "forget", address)
    return error(
        "bad-id",
        f"`{address}` was created, and the answer holds no id that can be used: nothing is sent about it",
        resource.span("metadata", "name") if resource is not None else None,
        help=f"{_FORM}: ask the provider for the object, and for a proper id; then run `{forget}`, and the "
        "next apply sends the same order again",
        advice=(forget,),
    )


def bad_object(resource: Resource, item: Any) -> Diagnostic | None:
    """An error where `item`, which is or may be the object of `resource`, has an id that is none."""
    name = item.bad_id
    if not name:
        return None
    return error(
        "bad-id",
        f"an object that is or may be `{resource.address}` is listed with an invalid id: "
        f"`{name}` is `{getattr(item, name)}`",
        resource.span("metadata", "name"),
        help=f"{_FORM}: look at the object, and check that the platform itself answers",
    )


class Siblings(Struct, frozen=True):
    """`owners`: by what tells an object from all others (`object_of`), the environment and the address.

    `unread`: the environments whose state is not here, or cannot be read.
    """

    owners: Mapping[tuple[str, str | None, str], tuple[str, Address]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def recorded_as(self, kinds: Mapping[str, Kind], record: StateRecord) -> str:
        """Where the object of `record`, which is new, is recorded already; "" for nowhere."""
        kind, address = kinds[record.address.kind], record.address
        owner = self.owners.get(object_of(kind, address, record.id, None, record))
        return f"as `{owner[1]}` in environment `{owner[0]}`" if owner is not None else ""

    def owner(self, kind: Kind, resource: Resource, id: str) -> tuple[str, Address] | None:
        """Which environment has the object `id` recorded, and where; None for none that is known."""
        return self.owners.get(object_of(kind, resource.address, id, resource.spec, None))


def recorded_elsewhere(kind: Kind, resource: Resource, id: str, owner: tuple[str, Address]) -> Diagnostic:
    """Two environments that both own an object would undo each other's changes, or delete it."""
    environment, address = owner
    return error(
        "recorded-elsewhere",
        f"`{resource.address}` would take {id}, which is recorded as `{address}` in environment "
        f"`{environment}`",
        resource.span(*(kind.id_path if resource.adopt_id is not None else ("metadata", "name"))),
        help=f"choose it with --env {environment}, or give this environment its own app or name; to "
        f"hand the object over, forget `{address}` there first",
    )


def unread_siblings(siblings: Siblings) -> Diagnostic:
    """Said once where something is taken over, and an environment may own it that nobody could ask."""
    names = in_a_row([f"`{name}`" for name in siblings.unread])
    unread = f"the state of {names}" if len(siblings.unread) == 1 else f"the states of {names}"
    return Diagnostic(
        "environment-not-read",
        Severity.INFO,
        f"another environment may own the objects that this plan adopts: {unread} cannot be read here",
    )
