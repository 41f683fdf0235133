"""What a provider tells of one extension, and where a person signs in to it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.errors import NotFound, PlatformError, ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import one
from reconciler.kinds import find_kinds
from reconciler.kinds.base import segment
from reconciler.kinds.roles import OnService, located, secret_names, service_of
from reconciler.pipeline.unrecorded import not_recorded
from reconciler.policies.provider import ID
from reconciler.services.client import Client
from reconciler.services.providers.wire import ExtensionCosts
from reconciler.state.store import Store


class ShownExtension(Struct, frozen=True):
    """`live` is None when the provider does not have it. `costs` is None where `no_costs` says why.

    `sets`: names of the app's secrets that came from it.
    """

    record: StateRecord
    provider: str
    sets: tuple[str, ...]
    live: Mapping[str, Any] | None
    costs: Mapping[str, Any] | None
    no_costs: str = ""


async def look_at_extension(
    store: Store,
    providers: Mapping[str, Client],
    costs_paths: Mapping[str, str | None],
    address: Address,
) -> ShownExtension:
    """`costs_paths`: `costs_path` of each provider. Raises ReconcilerError for what is not recorded."""
    record = await _recorded(store, address)
    client = _client(providers, record)
    kind = find_kinds()[address.kind]
    read = located(kind, address, record.id, frozenset(), record=record)
    live = None
    try:
        if read is not None:
            (found,) = (await client.read(read)).objects
            live = found.model_dump()
    except NotFound:
        pass
    costs, no_costs = None, ""
    path = costs_paths.get(client.name)
    if path is None:
        no_costs = f"ExtensionProvider/{client.name} names no `costs_path`"
    else:
        try:
            answer = await client.read(
                Read(path.replace(ID, segment(record.id)), one(ExtensionCosts), client.name)
            )
            costs = answer.objects[0].model_dump()
        except PlatformError as failure:
            no_costs = failure.message
    return ShownExtension(
        record, client.name, tuple(sorted(secret_names(kind, None, record))), live, costs, no_costs
    )


async def sign_in_address(store: Store, providers: Mapping[str, Client], address: Address) -> str:
    """Where the provider starts signing a person in. Source: platform API, 4.5."""
    record = await _recorded(store, address)
    return f"{_client(providers, record).base_url}/extensions/{segment(record.id)}/sso"


async def _recorded(store: Store, address: Address) -> StateRecord:
    kind = find_kinds().get(address.kind)
    if kind is None or kind.role(OnService) is None:
        raise ReconcilerError(f"`{address}` is not an extension", help="one looks like Extension/shop/db")
    records = (await store.load()).records
    record = records.get(address)
    if record is None:
        raise not_recorded(address, records)
    return record


def _client(providers: Mapping[str, Client], record: StateRecord) -> Client:
    name = service_of(find_kinds()[record.address.kind], None, record)
    if name not in providers:
        raise ReconcilerError(
            f"there is no ExtensionProvider `{name}` among the manifests",
            help=f"the manifest of ExtensionProvider/{name} must be among the `manifests` of reconcile.yaml",
        )
    return providers[name]
