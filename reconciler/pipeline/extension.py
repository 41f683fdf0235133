"""Where a person signs in to an extension, and what it costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.core.errors import PlatformError, ReconcilerError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import one
from reconciler.kinds import find_kinds
from reconciler.kinds.base import segment
from reconciler.kinds.roles import OnService, service_of
from reconciler.pipeline.unrecorded import not_recorded
from reconciler.policies.provider import ID, ExtensionProviderSpec
from reconciler.services.providers.wire import ExtensionCosts
from reconciler.services.registry import Services
from reconciler.state.store import Store


async def costs_of(
    services: Services, policies: Sequence[Resource], record: StateRecord
) -> Mapping[str, Any] | None:
    """What the provider's billing API says; `not_known` says why it says nothing. None: it has none."""
    name = service_of(find_kinds()[record.address.kind], None, record)
    provider = _providers(policies).get(name)
    if provider is None or provider.costs_path is None:
        return None
    path = provider.costs_path.replace(ID, segment(record.id))
    try:
        answer = await services.read(Read(path, one(ExtensionCosts), name))
    except PlatformError as failure:
        return {"not_known": failure.message}
    costs: Mapping[str, Any] = answer.objects[0].model_dump()
    return costs


async def sign_in_address(store: Store, policies: Sequence[Resource], address: Address) -> str:
    """Where the provider starts signing a person in. Source: platform API, 4.5."""
    kind = find_kinds().get(address.kind)
    if kind is None or kind.role(OnService) is None:
        raise ReconcilerError(f"`{address}` is not an extension", help="one looks like Extension/shop/db")
    records = (await store.load()).records
    record = records.get(address)
    if record is None:
        raise not_recorded(address, records)
    name = service_of(kind, None, record)
    provider = _providers(policies).get(name)
    if provider is None:
        raise ReconcilerError(
            f"there is no ExtensionProvider `{name}` among the manifests",
            help=f"the manifest of ExtensionProvider/{name} must be among the `manifests` of reconcile.yaml",
        )
    return f"{provider.base_url}/extensions/{segment(record.id)}/sso"


def _providers(policies: Sequence[Resource]) -> Mapping[str, ExtensionProviderSpec]:
    return {each.address.name: each.spec for each in policies if isinstance(each.spec, ExtensionProviderSpec)}
