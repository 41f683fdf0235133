"""Shows one resource as the platform and the record have it, with the costs of an extension."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.approvals.windows import owed_in
from reconciler.core.context import Context
from reconciler.core.errors import NotFound, PlatformError, ReconcilerError
from reconciler.core.model import Address, Owed, Resource, StateRecord
from reconciler.core.steps import Read
from reconciler.core.wire import one
from reconciler.drills.results import shown_drills
from reconciler.kinds import find_kinds
from reconciler.kinds.base import segment
from reconciler.kinds.roles import HoldsData, Look, OnService, located, secret_names, service_of
from reconciler.moves.records import follow_moves
from reconciler.planning.declared import Desired
from reconciler.policies.provider import ID, ExtensionProviderSpec
from reconciler.project.identity import require_state
from reconciler.project.project import Project
from reconciler.project.records import not_recorded
from reconciler.reports.escape import in_json, page_text
from reconciler.reports.records import record_document
from reconciler.reports.report import Page
from reconciler.reports.verdict import owed_dates
from reconciler.services.machines.wire.extension import ExtensionCosts
from reconciler.services.registry import Services
from reconciler.state.store import Store


class Shown(Struct, frozen=True):
    """`live` is None when the object is not on the platform, or nothing shows it: `unreadable` says why.

    `details` are lists of JSON objects by name, such as a volume's `snapshots`. `sets`: names of the app's
    secrets that came from it. `lineage`: of the state. `known`: the fields that the record holds, for an
    object that is not shown, and where they are from. `owed`: with its dates. `look`: how full it is.
    """

    record: StateRecord
    lineage: str
    unreadable: str = ""
    live: Mapping[str, Any] | None = None
    sets: Sequence[str] = ()
    details: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    known: Mapping[str, Any] = field(default_factory=dict)
    known_from: str = ""
    owed: Sequence[Owed] = ()
    look: Look | None = None


async def costs_of(
    services: Services, policies: Sequence[Resource], record: StateRecord
) -> Mapping[str, Any] | None:
    """The answer of the provider's billing API; `not_known` says why there is none.

    None: it has no such API.
    """
    name, provider = _provider_of(record, policies)
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
    """The address at which the provider starts signing a person in. Source: platform API, 4.5."""
    kind = find_kinds().get(address.kind)
    if kind is None or kind.role(OnService) is None:
        raise ReconcilerError(f"`{address}` is not an extension", help="one looks like Extension/shop/db")
    records = (await store.load()).records
    record = records.get(address)
    if record is None:
        raise not_recorded(address, records)
    name, provider = _provider_of(record, policies)
    if provider is None:
        raise ReconcilerError(
            f"there is no ExtensionProvider `{name}` among the manifests",
            help=f"the manifest of ExtensionProvider/{name} must be among the `manifests` of reconcile.yaml",
        )
    return f"{provider.base_url}/extensions/{segment(record.id)}/sso"


def _provider_of(
    record: StateRecord, policies: Sequence[Resource]
) -> tuple[str, ExtensionProviderSpec | None]:
    """The name of the provider that holds the object of `record`, and what is declared of it."""
    name = service_of(find_kinds()[record.address.kind], None, record)
    declared = [policy.spec for policy in policies if policy.address.name == name]
    return name, next((spec for spec in declared if isinstance(spec, ExtensionProviderSpec)), None)


async def look_at(
    project: Project,
    address: Address,
    manifests: Callable[[], Desired] = lambda: Desired(()),
    policies: Sequence[Resource] = (),
) -> Shown:
    """Raises ReconcilerError when `address` is not recorded.

    `policies`: among them the provider of an extension, which may tell its costs. `manifests` are asked for
    only where there is no such record: a Moved among them may say what it is still called.
    """
    state = await require_state(project)
    records = state.records
    if address not in records:
        desired = manifests()
        records = follow_moves(find_kinds(), desired.policies, desired.resources, records).records
    record = records.get(address)
    kind = find_kinds().get(address.kind)
    if record is None or kind is None:
        raise not_recorded(address, records)
    sets = sorted(set(secret_names(kind, None, record)) - {record.id})  # a Secret is its name
    read = located(kind, address, record.id, project.capabilities, record=record)
    known = {field.name: record.applied[field.name] for field in kind.fields if field.name in record.applied}
    owed = owed_in(project, state, {address: record})
    known_from = kind.known_from(record)
    unseen = Shown(record, state.lineage, sets=sets, known=known, known_from=known_from, owed=owed)
    if read is None:
        return replace(unseen, unreadable=kind.unreadable)
    try:
        seen = await project.services.read(read)
    except NotFound:
        return unseen
    live = next((item for item in seen.objects if item.id == record.id), None)
    if live is None:
        return unseen
    details = {}
    for name, detail in kind.details(address, record.id, project.capabilities).items():
        answer = await project.services.read(detail)
        details[name] = [item.model_dump() for item in answer.objects]
    drills = shown_drills(state, address, project.clock.now())
    details |= {"drills": list(drills)} if drills else {}
    costs = await costs_of(project.services, policies, record) if kind.role(OnService) is not None else None
    if costs is not None:
        details["costs"] = [costs]
    look = Look.of(live, seen.at) if kind.role(HoldsData) is not None else None
    return Shown(record, state.lineage, "", live.model_dump(), sets, details, owed=owed, look=look)


def object_page(shown: Shown, context: Context) -> Page:
    """One resource as the platform and the record have it."""
    record, live, look = shown.record, shown.live, shown.look
    lines = [f"{record.address} {record.id}{'  inferred' if record.inferred else ''}".rstrip()]
    if live is not None:
        lines += [f"  {name}: {in_json(value)}" for name, value in live.items()]
    else:
        why = f"  not readable on the platform ({shown.unreadable})"
        lines.append(why if shown.unreadable else "  not on the platform")
        lines.append(f"  last known, from {shown.known_from}:{'' if shown.known else ' nothing'}")
        lines += [f"    {name}: {in_json(value)}" for name, value in shown.known.items()]
    lines += [f"fullness: {look}"] if look is not None and look.percent is not None else []
    lines += [f"sets secrets: {', '.join(shown.sets)}"] if shown.sets else []
    for name, items in shown.details.items():
        lines += [f"{name}:{'' if items else ' none'}", *(f"  {_line(item)}" for item in items)]
    for work in shown.owed:
        lines.append(f"owed: {work.work} ({work.certainty}), because {work.because}")
        lines += [f"  {dates}"] if (dates := owed_dates(work)) else []
    found: dict[str, Any] = {"record": record_document(record, shown.owed), "live": live}
    found |= {"sets": list(shown.sets)} if shown.sets else {}
    if look is not None and look.percent is not None:
        sizes = {"used_bytes": look.used_bytes, "total_bytes": look.total_bytes}
        found["fullness"] = sizes | {"percent": look.percent}
    return Page(document=found | dict(shown.details), text=page_text(lines), context=context)


def _line(detail: Mapping[str, Any]) -> str:
    """A detail as JSON; of a drill, what it proves."""
    if "proven" not in detail:
        return in_json(detail)
    failed = [f"; the last one failed: {one['why']}" for one in detail["results"][:1] if not one["passed"]]
    return f"{detail['drill']}: {detail['proven']}{''.join(failed)}"
