"""Good calls: provision, status, readiness, PATCH, costs, unknown ids, DELETE; and the same id again.

A repeat is how a lost answer is healed, so it has to give the same result.
"""

import re
from collections.abc import Mapping
from typing import Any

from reconciler.providers.check.bench import (
    AT_ONCE,
    GONE,
    POLL_S,
    Bench,
    Group,
    Made,
    NotChecked,
    Unmet,
    id_of,
    is_success,
    object_of,
    path_of,
    same,
    says_gone,
    succeeded,
)
from reconciler.providers.check.request import Exchange
from reconciler.services.machines.wire.extension import FAILED_STATUSES

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNKNOWN = "check-there-is-no-such-resource"
_BUSY = 409
calls = Group("calls")
repeats = Group("repeats")


@calls(
    "POST provisions",
    "a signed POST of the documented parameters is answered 2xx in UTF-8 with `id`, text of letters, digits, "
    "`.`, `_`, `~` and `-`, and `config`, an object of text to text whose keys can be names of environment "
    "variables; `name` and `platform_app_name` are text if they are present",
    "platform API, 4.5 and 2.8; the characters of `id` are a rule of this project",
)
async def provisions(bench: Bench) -> None:
    if bench.shared.target is None:
        # Made here, so that this check reports a failure, and not those that need a resource.
        bench.shared.target = await bench.make(bench.order())
    made = bench.shared.target
    bench.trail.append(made.answer)
    assert made.answer.answer is not None
    body = object_of(made.answer.answer)
    config = body.get("config")
    if not isinstance(config, dict):
        raise Unmet("`config` is not an object")
    for name, value in config.items():
        if not isinstance(value, str):
            raise Unmet(f"the value of `config.{name}` is not text but {_kind(value)}")
        if not _VARIABLE.fullmatch(name):
            raise Unmet(f"`{name}` in `config` cannot be the name of an environment variable")
    for name in ("name", "platform_app_name"):
        if not isinstance(body.get(name), str | None):
            raise Unmet(f"`{name}` is not text but {_kind(body[name])}")


@calls(
    "an order of another id",
    "an order with another `id` makes another resource: its answer has another `id`",
    "platform API, 2.7: `id` is unique; 2.8: the id of all later calls, DELETE among them",
)
async def provisions_another(bench: Bench) -> None:
    first = await bench.target()
    if (await bench.make(bench.order())).id == first.id:
        raise Unmet("two orders with different ids were answered with one `id`")


@calls(
    "GET shows the status",
    "GET of the answered id is answered 200 with an object that contains `status`, text",
    "platform API, 4.5: return the resource, including its `status`; 2.8: the id of all later calls",
)
async def shows_status(bench: Bench) -> None:
    made = await bench.target()
    answer = await bench.call("GET", path_of(made.id))
    if answer.status != 200:
        raise Unmet(f"GET of the id from the POST's answer was answered {answer.status}")
    status = object_of(answer).get("status")
    if not isinstance(status, str) or not status:
        raise Unmet(f"`status` is not text but {_kind(status)}")


@calls(
    "it becomes ready",
    f"polled every {POLL_S:g} s, the status becomes `ready` (or `sleeping`) before the deadline",
    "platform API, 4.5 rule 1 and 3.4; notes: clients poll every 2 s for up to 4 minutes",
)
async def becomes_ready(bench: Bench) -> None:
    made = await bench.target()
    if made.settled:
        return
    await bench.call("GET", path_of(made.id))
    seen = ", ".join(f"`{status}`" for status in dict.fromkeys(made.statuses)) or "no status"
    if made.statuses and made.statuses[-1] in FAILED_STATUSES:
        raise Unmet(f"provisioning ended with {seen}")
    raise Unmet(f"not ready within {bench.subject.ready_s:g} s: {seen}")


@calls(
    "PATCH changes it",
    "a signed PATCH with the parameters of the POST is answered 2xx; a parameter that GET shows is shown "
    "with its new value afterwards",
    "platform API, 4.5: update a resource, e.g. add or remove read replicas; same parameters as the POST",
)
async def patches(bench: Bench) -> None:
    made = await bench.make(bench.order())
    before = await bench.shown(made.id)
    changed = {**made.order, "read_regions": list(bench.subject.regions)}
    for _ in range(2):  # absolute: the second changes nothing more
        succeeded(await bench.call("PATCH", path_of(made.id), changed), "PATCH")
    after = await bench.shown(made.id)
    if before is None or after is None:
        raise Unmet(
            "the resource is gone after the PATCH" if after is None else "the resource does not exist"
        )
    if "read_regions" not in before and "read_regions" not in after:
        raise NotChecked(
            "PATCH was answered 2xx, but GET does not show `read_regions`, so no effect can be seen"
        )
    if after.get("read_regions") != changed["read_regions"]:
        raise Unmet("GET still shows the old `read_regions` after a PATCH that was answered 2xx")


@calls(
    "PATCH of the name",
    "a signed PATCH with another `name` is refused (4xx), or GET shows that name afterwards: it is not "
    "answered 2xx and ignored",
    "platform API, 4.5: accepts the same parameters as the provisioning POST; 2.7: `name`",
)
async def patches_name(bench: Bench) -> None:
    made = await bench.make(bench.order())
    before = await bench.shown(made.id)
    if before is None or before.get("name") != made.order["name"]:
        raise NotChecked("GET does not show the requested `name`: the provider may choose the name itself")
    changed = {**made.order, "name": f"{made.order['name']}-renamed"}
    answer = await bench.call("PATCH", path_of(made.id), changed)
    refused = 400 <= answer.status < 500
    if not refused:
        succeeded(answer, "PATCH of the name")
    after = await bench.shown(made.id)
    if after is None:
        raise Unmet("the resource is gone after the PATCH")
    if after.get("name") != (made.order if refused else changed)["name"]:
        if refused:
            raise Unmet(f"GET shows another `name` after a PATCH that was refused ({answer.status})")
        raise Unmet(f"GET does not show the new `name` after a PATCH that was answered {answer.status}")


for _method in ("GET", "PATCH", "DELETE"):

    @calls(
        f"{_method} of an unknown id",
        "a signed call for an id that does not exist is answered 404 (or 410)",
        "platform API, 4.5; notes: 404 is done",
    )
    async def unknown(bench: Bench, method: str = _method) -> None:
        fields: dict[str, Any] | None = bench.order() if method == "PATCH" else None
        answer = await bench.call(method, path_of(_UNKNOWN), fields)
        if answer.status not in GONE:
            raise Unmet(f"{method} of an id that never existed was answered {answer.status}, not 404")


@calls(
    "DELETE removes it",
    "a signed DELETE is answered 2xx; the resource is gone afterwards: GET is answered 404 or 410, or shows "
    "the status `deleted`",
    "platform API, 5.2 rule 1; notes: DELETE is signed, so it is sent; 404 is done",
)
async def deletes(bench: Bench) -> None:
    made = await bench.make(bench.order())
    succeeded(await bench.call("DELETE", path_of(made.id)), "DELETE")
    clock = bench.shared.clock
    until = clock.monotonic() + bench.subject.ready_s
    while True:
        answer = await bench.call("GET", path_of(made.id))
        if answer.status in GONE or says_gone(object_of(answer)):
            return
        if clock.monotonic() + POLL_S > until:
            raise Unmet(f"the resource is still there {bench.subject.ready_s:g} s after the DELETE")
        await clock.sleep(POLL_S)


@calls(
    "DELETE again",
    "a second DELETE is answered 404 (410, or 2xx): after a lost answer, the call is sent again",
    "notes: 404 is done",
)
async def deletes_again(bench: Bench) -> None:
    made = await bench.make(bench.order())
    for _ in range(2):
        answer = await bench.call("DELETE", path_of(made.id))
    if answer.status not in GONE:
        succeeded(answer, "the second DELETE")


@calls(
    "GET of the costs",
    "a signed GET of the billing path is answered 200 with JSON",
    "platform API, 4.5 rule 5: a billing API, queried once per day; the document does not show its path "
    "and payload",
)
async def costs(bench: Bench) -> None:
    path = bench.costs_path()
    await bench.target()
    answer = await bench.call("GET", path)
    if answer.status != 200:
        raise Unmet(f"GET of the costs was answered {answer.status}")
    object_of(answer)


def _check_same_result(first: Exchange, again: Exchange) -> None:
    """Raises Unmet unless both answers give the same `id` and `config`."""
    assert first.answer is not None
    assert again.answer is not None
    succeeded(again.answer, "the same id again")
    before, after = object_of(first.answer), object_of(again.answer)
    if before.get("id") != after.get("id"):
        raise Unmet("the same id again gives another resource: `id` differs")
    if same(before.get("config"), after.get("config")):
        return
    one, other = before.get("config"), after.get("config")
    if isinstance(one, dict) and isinstance(other, dict):
        differing = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
        raise Unmet(f"the same id again gives another `config`: {', '.join(differing)} differ")
    raise Unmet("the same id again gives another `config`")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", bool: "true or false", type(None): "missing or null"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "text")


_REPEATS = "platform API, 2.7: `id` is unique; 4.5 rule 3: idempotently; notes: POST of the same id again"


async def _again(bench: Bench, first: Exchange, order: Mapping[str, Any]) -> None:
    await bench.call("POST", "/extensions", order)
    _check_same_result(first, bench.trail[-1])


async def _complete(bench: Bench) -> tuple[Made, Exchange]:
    """A ready resource, and the answer with its whole configuration."""
    made = await bench.make(bench.order())
    first = made.answer
    if made.answer.answer is not None and made.answer.answer.status == 202:  # its `config` came later
        answer = await bench.call("POST", "/extensions", made.order)
        if made.settled and answer.status == 202:
            raise Unmet(
                "the resource is ready, but the same id again is still answered 202, without a `config`"
            )
        first = bench.trail[-1]
    return made, first


@repeats("one after the other", "the same id again gives the same `id` and `config`", _REPEATS)
async def one_after_the_other(bench: Bench) -> None:
    made, first = await _complete(bench)
    for _ in range(2):
        await _again(bench, first, made.order)


@repeats(
    "after other calls",
    "the same id again, after a GET and a PATCH, gives the same `id` and `config`",
    _REPEATS,
)
async def after_other_calls(bench: Bench) -> None:
    made, first = await _complete(bench)
    for method, fields in (("GET", None), ("PATCH", made.order), ("GET", None)):
        await bench.call(method, path_of(made.id), fields)
    await _again(bench, first, made.order)


@repeats(
    f"{AT_ONCE} at once",
    "the same id several times at once creates one resource: every 2xx has the same `id`, other calls may be "
    "answered 409, and afterwards the same id gives the same `config` each time",
    _REPEATS,
)
async def at_once(bench: Bench) -> None:
    order = bench.order()
    benches = await bench.at_once(lambda one: one.call("POST", "/extensions", order))
    ids = set()
    for one in benches:
        answer = one.trail[-1].answer
        if answer is None:
            raise Unmet("one of the calls was not answered")
        if is_success(answer):
            ids.add(id_of(answer))
        elif answer.status != _BUSY:
            raise Unmet(f"one of the calls was answered {answer.status}")
    if len(ids) > 1:
        raise Unmet(f"{len(ids)} resources were created: the answers differ in `id`")
    made = await bench.make(order)
    if ids and made.id not in ids:
        raise Unmet("the same id afterwards gives another resource: `id` differs")
    await bench.call("POST", "/extensions", order)
    first = bench.trail[-1]
    for one in benches:
        last = one.trail[-1]
        if last.answer is not None and is_success(last.answer) and last.answer.status != 202:
            bench.trail.append(last)
            _check_same_result(first, last)
    await _again(bench, first, order)
