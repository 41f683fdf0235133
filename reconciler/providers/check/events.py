"""Machine events, and bounds of what is read.

Events are CloudEvents in binary mode, signed over the body. A provider may have none: then nothing of that
group is checked. Too much, too slow and too deep is refused without an error of the server and without
effect. These requests are signed: a provider must bound what it reads before it knows who sent it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.core.errors import TransportError
from reconciler.providers.check.bench import (
    Bench,
    Group,
    NotChecked,
    Send,
    Unmet,
    check_refused,
    succeeded,
    webhook_secret_of,
)
from reconciler.providers.check.refusals import expect_refusal, wrong
from reconciler.providers.check.request import Draft, Exchange, Request, send_cut, send_half
from reconciler.services.signing import MAX_SIGNED

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


_CAPS = "this project's rule for providers (docs/provider-check.md); the API document names no limit"
bounds = Group("bounds")


async def _refused_or_closed(bench: Bench, request: Request, send: Send | None = None) -> None:
    """A closed connection is as good as a refusal. Raises Unmet for anything else."""
    try:
        answer = await bench.attempt(request, send)
    except Unmet:
        return
    check_refused(answer)


async def _without_effect(
    bench: Bench, order: Mapping[str, Any], request: Request, send: Send | None = None
) -> None:
    await _refused_or_closed(bench, request, send)
    await bench.expect_nothing_made(order, "the resource was created anyway")


@bounds(
    "a POST of more than 1 MiB",
    "a signed body of more than 1 MiB is refused (4xx, or the connection is closed) and changes nothing",
    _CAPS,
)
async def too_large(bench: Bench) -> None:
    order = await bench.suspect_order()
    filled = {**order, "organization_name": "f" * MAX_SIGNED}
    await _without_effect(bench, order, bench.draft("POST", "/extensions", filled).request())


@bounds(
    "an event of more than 1 MiB",
    "a signed event of more than 1 MiB is refused (4xx, or the connection is closed)",
    _CAPS,
)
async def event_too_large(bench: Bench) -> None:
    draft, _, headers = new_event(bench)
    body = json.dumps({"machine_id": "f" * MAX_SIGNED}).encode()
    await _refused_or_closed(
        bench, Request("POST", bench.subject.url(PATH), (draft.sign(body),), body, headers)
    )


@bounds(
    "a body that ends too early",
    "after half of the announced body of a signed POST, the connection ends: nothing is created",
    "platform API, 5.2 rule 1: the whole body is signed",
)
async def cut_short(bench: Bench) -> None:
    order = await bench.suspect_order()
    await _without_effect(bench, order, bench.draft("POST", "/extensions", order).request(), send_cut)


@bounds(
    "a body that does not end",
    "after half of the announced body of a signed POST, nothing more is sent: within the time limit the "
    "provider refuses it or closes the connection",
    _CAPS,
)
async def never_ends(bench: Bench) -> None:
    request = bench.draft("POST", "/extensions", bench.order()).request()
    deadline_s, clock = bench.subject.slow_body_s, bench.shared.clock
    began = clock.monotonic()
    try:
        answer = await send_half(request, deadline_s)
    except TransportError as failure:
        bench.trail.append(Exchange(request, None, failure.message))
        if clock.monotonic() - began >= deadline_s:
            raise Unmet(f"after {deadline_s:g} s the provider is still waiting for the rest") from None
        return
    bench.trail.append(Exchange(request, answer))
    check_refused(answer)


@bounds(
    "JSON that is nested too deeply",
    "a signed body of 100,000 open brackets is refused (4xx) without a server error",
    "platform API, 4.5; every parser has a limit",
)
async def too_deep(bench: Bench) -> None:
    order = await bench.suspect_order()
    draft = bench.draft("POST", "/extensions", {**order, "name": "deep"})
    body = draft.message().replace(b'"deep"', b"[" * 100_000 + b"]" * 100_000)
    await _without_effect(bench, order, draft.request(body))


@bounds(
    "a parameter is missing",
    "a signed POST without a required parameter is refused (4xx) without a server error",
    "platform API, 2.7: required",
)
async def incomplete(bench: Bench) -> None:
    await bench.target()
    missing = ("organization_id", "user_role")
    order = {name: value for name, value in bench.order().items() if name not in missing}
    answer = await bench.call("POST", "/extensions", order)
    if answer.status >= 500:
        raise Unmet(f"it was answered {answer.status}")
    if answer.status < 400:
        raise NotChecked("the provider does not require `organization_id` and `user_role`")
