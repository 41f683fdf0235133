"""Machine events: CloudEvents in binary mode, signed over the body."""

import json
from typing import Any

from reconciler.providers.check.bench import Bench, Check, NotChecked, Unmet, add, check
from reconciler.providers.check.refusals import expect_refusal
from reconciler.providers.check.request import Draft, Request

PATH = "/extensions/events"
_SOURCE = "platform API, 2.11, 6.2 and 5.2 rule 1; notes: binary mode, headers lie outside the signature"
_READING = (
    "; assumed: an event's body contains only machine_id, status and data, without `url`, `nonce` or "
    "`timestamp`, and the signature covers that body"
)
_ABSENT = (404, 405, 501)


def _event(bench: Bench, **changes: Any) -> tuple[Draft, bytes, dict[str, str]]:
    """A draft to sign with, the body, and the headers of a new event."""
    draft = bench.draft("POST", PATH)
    fields = {
        "machine_id": bench.new_id(),
        "status": "started",
        "data": {"Transition": "starting -> started"},
    } | changes
    now = bench.shared.clock.now().isoformat().replace("+00:00", "Z")
    headers = {
        "content-type": "application/json",
        "ce-id": bench.new_id(),
        "ce-source": "https://platform.invalid/check",
        "ce-type": "io.platform.machine.started",
        "ce-specversion": "1.0",
        "ce-time": now,
    }
    return draft, json.dumps(fields).encode(), headers


async def _accepted(bench: Bench) -> Request:
    """The good event, sent. Raises Unmet when it is not taken, NotChecked when there are no events."""
    draft, body, headers = _event(bench)
    request = Request("POST", draft.url, (draft.sign(body),), body, headers)
    answer = await bench.send(request)
    if answer.status in _ABSENT:
        raise NotChecked(f"the provider accepts no events (POST {PATH} was answered {answer.status})")
    if not 200 <= answer.status < 300:
        raise Unmet(f"a signed event was answered {answer.status}")
    return request


@check("events", "a signed event is taken", f"a signed event is answered 2xx{_READING}", _SOURCE)
async def taken(bench: Bench) -> None:
    await _accepted(bench)


async def _known_accepted(bench: Bench) -> Request:
    """As `_accepted`, for checks that say nothing of a provider that takes no good event: NotChecked."""
    try:
        return await _accepted(bench)
    except Unmet as problem:
        raise NotChecked(f"{problem}, which another check reports") from None


@check(
    "events",
    "the same event again is taken",
    "an event may arrive twice, and is answered 2xx both times (whether it has a second effect cannot be "
    f"seen from outside){_READING}",
    "platform API, 6.2 rule 5: the document shows no delivery guarantees",
)
async def taken_again(bench: Bench) -> None:
    request = await _known_accepted(bench)
    answer = await bench.send(request)
    if not 200 <= answer.status < 300:
        raise Unmet(f"the same event again was answered {answer.status}")


def _forged(draft: Draft, body: bytes, headers: dict[str, str], kind: str) -> Request | None:
    """None when it cannot be made, for want of the webhook secret."""
    signatures: tuple[str, ...] = (draft.sign(body),)
    match kind:
        case "unsigned":
            signatures = ()
        case "tampered with":
            body = body.replace(b"started", b"stopped", 1)
        case "with a changed signature":
            last = "1" if signatures[0][0] != "1" else "2"
            signatures = (last + signatures[0][1:],)
        case "under a wrong secret":
            signatures = (draft.sign(body, draft.wrong_secret),)
        case "under the webhook secret":
            if draft.webhook_secret is None:
                return None
            signatures = (draft.sign(body, draft.webhook_secret),)
        case "with the signature of another":
            signatures = (draft.sign(body + b" "),)
    return Request("POST", draft.url, signatures, body, headers)


for _kind in (
    "unsigned",
    "tampered with",
    "with a changed signature",
    "under a wrong secret",
    "under the webhook secret",
    "with the signature of another",
):

    async def refused(bench: Bench, kind: str = _kind) -> None:
        await _known_accepted(bench)
        request = _forged(*_event(bench), kind)
        if request is None:
            raise NotChecked("the webhook secret was not given")
        await expect_refusal(bench, request)

    add(
        Check(
            "events",
            f"an event {_kind} is refused",
            f"it is answered 401, as all refusals{_READING}",
            _SOURCE,
            refused,
        )
    )
