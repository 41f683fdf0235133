"""Machine events: CloudEvents in binary mode, signed over the body.

A provider may have no events: then nothing of this group is checked.
"""

import json
from collections.abc import Callable

from reconciler.providers.check.bench import (
    Bench,
    Group,
    NotChecked,
    Unmet,
    succeeded,
    webhook_secret_of,
)
from reconciler.providers.check.forgeries import wrong
from reconciler.providers.check.refusals import expect_refusal
from reconciler.providers.check.request import Draft, Request

PATH = "/extensions/events"
_SOURCE = "platform API, 2.11, 6.2 and 5.2 rule 1; notes: binary mode, headers lie outside the signature"
_READING = (
    "; assumed: an event's body contains only machine_id, status and data, without `url`, `nonce` or "
    "`timestamp`, and the signature covers that body"
)
_ABSENT = (404, 405, 501)
events = Group("events")


def new_event(bench: Bench) -> tuple[Draft, bytes, dict[str, str]]:
    """A draft to sign with, the body, and the headers of a new event."""
    data = {"Transition": "starting -> started"}
    body = {"machine_id": bench.new_id(), "status": "started", "data": data}
    headers = {
        "content-type": "application/json",
        "ce-id": bench.new_id(),
        "ce-source": "https://platform.invalid/check",
        "ce-type": "io.platform.machine.started",
        "ce-specversion": "1.0",
        "ce-time": bench.shared.clock.now().isoformat().replace("+00:00", "Z"),
    }
    return bench.draft("POST", PATH), json.dumps(body).encode(), headers


async def _accepted(bench: Bench) -> Request:
    """The good event, sent. Raises Unmet when it is not taken, NotChecked when there are no events."""
    draft, body, headers = new_event(bench)
    request = Request("POST", draft.url, (draft.sign(body),), body, headers)
    answer = await bench.send(request)
    if answer.status in _ABSENT:
        raise NotChecked(f"the provider accepts no events (POST {PATH} was answered {answer.status})")
    succeeded(answer, "a signed event")
    return request


@events("a signed event is taken", f"a signed event is answered 2xx{_READING}", _SOURCE)
async def taken(bench: Bench) -> None:
    await _accepted(bench)


async def _known_accepted(bench: Bench) -> Request:
    """As `_accepted`, for checks that say nothing of a provider that takes no good event: NotChecked."""
    try:
        return await _accepted(bench)
    except Unmet as problem:
        raise NotChecked(f"{problem}, which another check reports") from None


@events(
    "the same event again is taken",
    "an event may arrive twice, and is answered 2xx both times (whether it has a second effect cannot be "
    f"seen from outside){_READING}",
    "platform API, 6.2 rule 5: the document shows no delivery guarantees",
)
async def taken_again(bench: Bench) -> None:
    succeeded(await bench.send(await _known_accepted(bench)), "the same event again")


# How a good event is spoilt: the signatures and the body that are sent, from its draft and its body.
Forge = Callable[[Draft, bytes], tuple[tuple[str, ...], bytes]]
_FORGERIES: dict[str, Forge] = {
    "unsigned": lambda draft, body: ((), body),
    "tampered with": lambda draft, body: ((draft.sign(body),), body.replace(b"started", b"stopped", 1)),
    "with a changed signature": lambda draft, body: ((wrong(draft.sign(body)),), body),
    "under a wrong secret": lambda draft, body: ((draft.sign(body, draft.wrong_secret),), body),
    "under the webhook secret": lambda draft, body: ((draft.sign(body, webhook_secret_of(draft)),), body),
    "with the signature of another": lambda draft, body: ((draft.sign(body + b" "),), body),
}

for _kind, _forge in _FORGERIES.items():

    @events(f"an event {_kind} is refused", f"it is answered 401, as all refusals{_READING}", _SOURCE)
    async def refused(bench: Bench, forge: Forge = _forge) -> None:
        await _known_accepted(bench)
        draft, body, headers = new_event(bench)
        signatures, sent = forge(draft, body)
        await expect_refusal(bench, Request("POST", draft.url, signatures, sent, headers))
