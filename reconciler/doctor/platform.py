"""The platform: address, token and clock, by one GET; the declared capabilities, by GETs that need them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from reconciler.core.clock import Clock
from reconciler.core.errors import AppMissing, NotFound, PlatformError, ReconcilerError, TransportError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Read
from reconciler.doctor.check import Check, fine, suspicious, wrong
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind
from reconciler.kinds.roles import Importable, located
from reconciler.services.client import Client
from reconciler.services.outcome import http_date, is_html
from reconciler.services.transport import Answer

_DEADLINE_S = 10.0
MOST_OFF_S = 30.0  # a clock that is set by the network is off by less than a second

_NO_ID = "none"  # the id of no object
_TRIES = 3  # objects asked for a capability: a deleted one answers 404, like a missing endpoint


def reads_of(
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    capabilities: frozenset[str],
) -> Iterator[Read]:
    """The GETs that a plan starts with, and at the end GETs of ids that cannot exist."""
    kinds = find_kinds()
    for address, record in records.items():
        if address.kind in kinds:
            yield from _of_platform(
                located(kinds[address.kind], address, record.id, capabilities, record=record)
            )
    for address, resource in resources.items():
        kind = kinds[address.kind]
        yield from _of_platform(located(kind, address, resource.adopt_id, capabilities, resource.spec))
    for kind in kinds.values():
        if not kind.in_app:
            yield from _of_platform(kind.read(Address(kind.name, "-"), _NO_ID, capabilities))


def _of_platform(read: Read | None) -> Iterator[Read]:
    """`read`, if it is one and goes to the platform, not to a provider."""
    if read is not None and read.service == PLATFORM:
        yield read


async def check_platform(client: Client, read: Read, clock: Clock, *, sandbox: bool) -> list[Check]:
    """The checks of address, token and clock, by the answer to `read`."""
    try:
        client.check()
    except ReconcilerError as missing:
        return [
            suspicious("address", f"{client.base_url} was not checked: there is no token"),
            wrong("token", missing.message, missing.help),
            suspicious("clock", "not compared: the platform was not reached"),
        ]
    sent_at = clock.now()
    try:
        answer = await client.ask(read, _DEADLINE_S)
    except TransportError as failure:
        why = f"{client.base_url} does not answer: {failure.message}"
        return [
            wrong("address", why, "check `platform.base_url`, RECONCILE_BASE_URL and the network"),
            suspicious("token", "not tried: the platform does not answer"),
            suspicious("clock", "not compared: the platform does not answer"),
        ]
    ours = sent_at + (clock.now() - sent_at) / 2  # the best guess of when the platform wrote its time
    asked = f"GET {read.path} was answered {answer.status}"
    return [
        _address(answer, client, asked),
        _token(answer, client, asked, nobody=str(read.path).endswith(f"/{_NO_ID}")),
        _clock(answer, ours, sandbox=sandbox),
    ]


def _address(answer: Answer, client: Client, asked: str) -> Check:
    """`asked`: the GET and its status, for people."""
    place = client.base_url
    if is_html(answer) or 300 <= answer.status < 400:
        page = "an HTML page" if is_html(answer) else "a redirect, which is not followed"
        return wrong(
            "address", f"{place} is not the platform's API: {asked} with {page}", "check `platform.base_url`"
        )
    if answer.status >= 500:
        return wrong("address", f"{place} fails: {asked}", "run again when it answers")
    return fine("address", f"{place} answers")


def _token(answer: Answer, client: Client, asked: str, *, nobody: bool) -> Check:
    """`nobody`: the GET was for an id that cannot exist, because nothing of ours is known."""
    token = f"the token of {client.credential}"
    if answer.status == 401:
        return wrong("token", f"{token} was refused: {asked}", "renew it there")
    if answer.status == 403:
        help = "use a token of the organization that owns it"
        return wrong("token", f"{token} may not read this: {asked}", help)
    if answer.status == 200:
        return fine("token", f"{token} is accepted: {asked}")
    if answer.status == 404 and nobody:
        return fine("token", f"{token} was not refused: {asked}")
    if answer.status == 404:
        help = "check that the app or object exists, and that `platform.base_url` is the right platform"
        return suspicious("token", f"{token} was not refused, but {asked}", help)
    return suspicious("token", f"not known: {asked}", "run again")


def _clock(answer: Answer, ours: datetime, *, sandbox: bool) -> Check:
    """Compares the answer's Date with `ours`, this machine's time when the answer was made."""
    if sandbox:
        return fine("clock", "not compared: the emulated platform has a clock of its own")
    theirs = http_date(answer.headers.get("date", ""))
    if theirs is None:
        return suspicious("clock", "not compared: the platform does not report its time")
    off = ours - theirs - timedelta(seconds=0.5)  # the header has no fractions of a second
    if abs(off.total_seconds()) <= MOST_OFF_S:
        return fine("clock", "as the platform's")
    where = "ahead of" if off > timedelta() else "behind"
    return suspicious(
        "clock",
        f"this machine's is {timedelta(seconds=round(abs(off).total_seconds()))} {where} the platform's",
        "set this clock from the network: providers refuse requests with a wrong time, and waits depend "
        "on it",
    )


async def check_capabilities(
    client: Client,
    declared: frozenset[str],
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
) -> Check:
    """Check every declared capability by GETs that need it. One that only allows changes cannot be tried."""
    answering, missing, untried, unclear = [], [], [], []
    for name in sorted(declared):
        reads = list(dict.fromkeys(_reads_by(name, resources, records)))[:_TRIES]
        if not reads:
            untried.append(name)
            continue
        is_there, answer = await _try(client, reads)
        if is_there is True:
            answering.append(name)
        elif is_there is False:
            missing.append(f"{name} ({answer})")
        else:
            unclear.append(f"{name} ({answer})")
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
        help = "remove them from `platform.capabilities` in reconcile.yaml, or from RECONCILE_CAPABILITIES"
        return wrong("capabilities", message, help)
    if unclear:
        return suspicious("capabilities", message)
    return fine("capabilities", message or "none declared")


def _reads_by(
    capability: str, resources: Mapping[Address, Resource], records: Mapping[Address, StateRecord]
) -> Iterator[Read]:
    """The GETs of declared and recorded objects that only this capability makes possible."""
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
    """The GETs that `kind` has for one address, or for its app."""
    record, resource = records.get(address), resources.get(address)
    importable = kind.role(Importable)
    own = address.kind == kind.name
    place = (address.app or "") if kind.in_app else ""
    if importable is not None and not kind.in_app and own and resource is not None:
        place = importable.place(resource, resources)
    found = [importable.listing(place, capabilities)] if importable is not None and place else []
    id = record.id if record is not None else resource.adopt_id if resource is not None else None
    if own and id:
        found += [kind.read(address, id, capabilities), *kind.details(address, id, capabilities).values()]
    yield from (read for read in found if read is not None)


async def _try(client: Client, reads: Sequence[Read]) -> tuple[bool | None, str]:
    """Whether the endpoint exists (None: no answer shows it), and the answer for people."""
    answer, missing = "", True
    for read in reads:
        try:
            await client.read(read)
        except AppMissing as failure:
            answer, missing = failure.message, False
        except NotFound:
            answer = f"GET {read.path}"
        except PlatformError as failure:
            return None, failure.message
        else:
            return True, ""
    return (False if missing else None), answer
