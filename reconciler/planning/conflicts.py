"""What manifests and records say together of one machine or one secret: several may speak of the same."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.kinds.base import Kind, Power
from reconciler.kinds.roles import KeepsPower, SendsSecret, SetsSecrets

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
                owner = next((each for each in addresses if each.kind != address.kind), None)
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
