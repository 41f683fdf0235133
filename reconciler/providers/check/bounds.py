"""Too much, too slow, too deep: refused without an error of the server and without effect.

The requests are signed: a provider must bound what it reads before it knows who sent it.
"""

import json
from collections.abc import Mapping
from typing import Any

from reconciler.core.errors import TransportError
from reconciler.providers.check.bench import Bench, Group, NotChecked, Send, Unmet, check_refused
from reconciler.providers.check.events import PATH, new_event
from reconciler.providers.check.request import Exchange, Request, send_cut, send_half
from reconciler.services.signing import MAX_SIGNED

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
