"""The capabilities that the settings declare: whether the platform has their endpoints."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.core.errors import AppMissing, NotFound, PlatformError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Read
from reconciler.doctor.check import Check, fine, suspicious, wrong
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import HasDetails, Importable
from reconciler.services.client import Client

_TRIES = 3  # objects that are asked for: one that is gone answers 404, too


async def check_capabilities(
    client: Client,
    declared: frozenset[str],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
) -> Check:
    """Each by GETs that need it. One that only changes something cannot be tried."""
    answering, missing, untried, unclear = [], [], [], []
    for name in sorted(declared):
        reads = list(dict.fromkeys(_reads_by(name, resources, records)))[:_TRIES]
        if not reads:
            untried.append(name)
            continue
        verdict, told = await _try(client, reads)
        if verdict is True:
            answering.append(name)
        elif verdict is False:
            missing.append(f"{name} ({told})")
        else:
            unclear.append(f"{name} ({told})")
    message = "; ".join(
        f"{what}: {', '.join(names)}"
        for what, names in (
            ("answer 404", missing),
            ("not clear", unclear),
            ("there", answering),
            ("cannot be checked with a GET", untried),
        )
        if names
    )
    if missing:
        take_out = (
            "remove them from `platform.capabilities` in reconcile.yaml, or from RECONCILE_CAPABILITIES"
        )
        return wrong("capabilities", message, take_out)
    return (
        suspicious("capabilities", message) if unclear else fine("capabilities", message or "none declared")
    )


def _reads_by(
    capability: str, resources: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
) -> Iterator[Read]:
    """The GETs about what is declared or recorded that only this capability makes possible."""
    for kind in find_kinds().values():
        if capability not in kind.capabilities:
            continue
        for address in dict.fromkeys((*records, *resources)):
            without = set(_reads_of(kind, address, resources, records, frozenset()))
            found = _reads_of(kind, address, resources, records, frozenset({capability}))
            yield from (read for read in found if read not in without and read.service == PLATFORM)


def _reads_of(
    kind: Kind,
    address: Address,
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    capabilities: frozenset[str],
) -> Iterator[Read]:
    """The GETs that `kind` knows of one address, or of its app."""
    record, resource = records.get(address), resources.get(address)
    importable, detailed = kind.role(Importable), kind.role(HasDetails)
    own = address.kind == kind.name
    place = (address.app or "") if kind.in_app else ""
    if importable is not None and not kind.in_app and own and resource is not None:
        place = importable.place(resource, resources)
    found = [importable.listing(place, capabilities)] if importable is not None and place else []
    id = record.id if record is not None else resource.adopt_id if resource is not None else None
    if own and id:
        found += [kind.read(address, id, capabilities)]
        found += detailed.details(address, id, capabilities).values() if detailed is not None else []
    yield from (read for read in found if read is not None)


async def _try(client: Client, reads: Sequence[Read]) -> tuple[bool | None, str]:
    """Whether the endpoint is there, and what was answered; None: no answer tells."""
    told, missing = "", True
    for read in reads:
        try:
            await client.read(read)
        except AppMissing as failure:
            told, missing = failure.message, False
        except NotFound:
            told = f"GET {read.path}"
        except PlatformError as failure:
            return None, failure.message
        else:
            return True, ""
    return (False if missing else None), told
