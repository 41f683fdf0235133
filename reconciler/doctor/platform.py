"""The platform: its address, the token and its clock, by one GET that is asked once."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError, TransportError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import PLATFORM, Read
from reconciler.doctor.check import Check, fine, suspicious, wrong
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import located
from reconciler.services.answers import http_date, is_html
from reconciler.services.client import Client
from reconciler.services.transport import Answer

_DEADLINE_S = 10.0
MOST_OFF_S = 30.0  # a clock that is set by the network is off by less than a second

_NOBODY = "none"  # the id of no object


def reads_of(
    resources: Mapping[Address, Resource],
    records: Mapping[Address, StateRecord],
    capabilities: frozenset[str],
) -> Iterator[Read]:
    """The GETs by which a plan begins, and at the end those of objects that there cannot be."""
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
            yield from _of_platform(kind.read(Address(kind.name, "-"), _NOBODY, capabilities))


def _of_platform(read: Read | None) -> Iterator[Read]:
    if read is not None and read.service == PLATFORM:
        yield read


async def check_platform(client: Client, read: Read, clock: Clock, *, sandbox: bool) -> Iterator[Check]:
    """Address, token and clock, as the answer to `read` shows them."""
    try:
        client.check()
    except ReconcilerError as missing:
        return iter(
            [
                suspicious("address", f"{client.base_url} was not checked: there is no token"),
                wrong("token", missing.message, missing.help),
                suspicious("clock", "not compared: the platform was not reached"),
            ]
        )
    began = clock.now()
    try:
        answer = await client.ask(read, _DEADLINE_S)
    except TransportError as failure:
        why = f"{client.base_url} does not answer: {failure.message}"
        return iter(
            [
                wrong("address", why, "check `platform.base_url`, RECONCILE_BASE_URL and the network"),
                suspicious("token", "not tried: the platform does not answer"),
                suspicious("clock", "not compared: the platform does not answer"),
            ]
        )
    return _told_by(answer, client, str(read.path), began + (clock.now() - began) / 2, sandbox=sandbox)


def _told_by(answer: Answer, client: Client, path: str, ours: datetime, *, sandbox: bool) -> Iterator[Check]:
    asked = f"GET {path} was answered {answer.status}"
    yield _address(answer, client, asked)
    yield _token(answer, client, asked, nobody=path.endswith(f"/{_NOBODY}"))
    yield _clock(answer, ours, sandbox=sandbox)


def _address(answer: Answer, client: Client, asked: str) -> Check:
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
    if answer.status == 401:
        return wrong("token", f"the token of {client.credential} was refused: {asked}", "renew it there")
    if answer.status == 403:
        return wrong(
            "token",
            f"the token of {client.credential} may not read this: {asked}",
            "use a token of the organization that owns it",
        )
    if answer.status == 200:
        return fine("token", f"the token of {client.credential} is accepted: {asked}")
    if answer.status == 404 and nobody:  # there is nothing of ours to ask for
        return fine("token", f"the token of {client.credential} was not refused: {asked}")
    if answer.status == 404:
        return suspicious(
            "token",
            f"the token of {client.credential} was not refused, but {asked}",
            "check that the app or object exists, and that `platform.base_url` is the right platform",
        )
    return suspicious("token", f"not known: {asked}", "run again")


def _clock(answer: Answer, ours: datetime, *, sandbox: bool) -> Check:
    if sandbox:
        return fine("clock", "not compared: the emulated platform has a clock of its own")
    theirs = http_date(answer.headers.get("date", ""))
    if theirs is None:
        return suspicious("clock", "not compared: the platform does not report its time")
    off = ours - theirs - timedelta(seconds=0.5)  # of `theirs`, the fraction of a second is cut off
    if abs(off.total_seconds()) <= MOST_OFF_S:
        return fine("clock", "as the platform's")
    where = "ahead of" if off > timedelta() else "behind"
    return suspicious(
        "clock",
        f"this machine's is {_spelled(abs(off))} {where} the platform's",
        "set this clock from the network: providers refuse requests with a wrong time, and waits depend "
        "on it",
    )


def _spelled(off: timedelta) -> str:
    return str(timedelta(seconds=round(off.total_seconds())))
