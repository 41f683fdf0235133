"""Requests that are not surely the platform's: refused, each time with the same 401, and without effect.

A forgery is tried on POST, PATCH, GET and DELETE as far as it makes sense. After it, a GET shows whether it
had an effect. The words of a refusal must not say what was wrong.
"""

from reconciler.providers.check.bench import (
    AT_ONCE,
    Bench,
    Group,
    NotChecked,
    Unmet,
    path_of,
    same,
    succeeded,
)
from reconciler.providers.check.forgeries import FORGERIES, Forgery
from reconciler.providers.check.request import Request, parsed
from reconciler.services.transport import Answer

_DEMAND = "it is answered 401, in the same words as every other refusal, and changes nothing"
_NONCE = "platform API, 2.7: a nonce is unique per request; 5.2 rule 2"
_UNAUTHORIZED = 401
refusals = Group("refusals")

Words = tuple[str, bytes]  # content type and body


async def expect_refusal(bench: Bench, request: Request) -> None:
    """Raises Unmet for any other answer than the refusal that all share."""
    answer = await bench.send(request)
    if answer.status != _UNAUTHORIZED:
        raise Unmet(f"it was answered {answer.status}, not 401")
    usual = await _usual_refusal(bench)
    if usual is not None and _words(answer) != usual:
        raise Unmet(
            "the refusal differs from the refusal of a call without a signature, so it reveals what was wrong"
        )


async def _usual_refusal(bench: Bench) -> Words | None:
    """The words of the refusal of a GET without a signature.

    None when two such refusals differ, so that words cannot be compared, or when it is not refused at all:
    another check finds that.
    """
    if bench.shared.refusals is None:
        own = Bench(bench.shared)
        draft = own.draft("GET", "/extensions/check-nothing")
        bench.shared.refusals = [await own.send(draft.request(signatures=())) for _ in range(2)]
    known = {_words(answer) for answer in bench.shared.refusals if answer.status == _UNAUTHORIZED}
    refused = all(answer.status == _UNAUTHORIZED for answer in bench.shared.refusals)
    return known.pop() if len(known) == 1 and refused else None


def _words(answer: Answer) -> Words:
    return answer.headers.get("content-type", ""), answer.body


async def _refused(bench: Bench, forgery: Forgery, method: str) -> None:
    if method == "POST":
        await _refused_post(bench, forgery)
        return
    made = await bench.target()
    before = await bench.shown(made.id)
    if before is None:
        bench.shared.target = None
        raise NotChecked("the resource for this check is gone")
    fields = {**made.order, "read_regions": []} if method == "PATCH" else None
    try:
        await expect_refusal(bench, forgery.make(bench.draft(method, path_of(made.id), fields)))
    except Unmet:
        if method != "GET":
            bench.shared.target = None
        raise
    refusal = bench.trail[-1]
    after = await bench.shown(made.id)
    if not same(before, after):
        bench.shared.target = None
        bench.trail.append(refusal)
        raise Unmet(
            f"it was answered 401, but took effect: {'the resource is gone' if after is None else 'changed'}"
        )


async def _refused_post(bench: Bench, forgery: Forgery) -> None:
    order = await bench.suspect_order()
    id = str(order["id"])
    try:
        request = forgery.make(bench.draft("POST", "/extensions", order))
    except NotChecked:
        del bench.shared.pending[id]
        raise
    await expect_refusal(bench, request)
    await bench.expect_nothing_made(order, "it was answered 401, but the resource was created anyway")
    del bench.shared.pending[id]


for _method in ("POST", "PATCH", "GET", "DELETE"):
    for _forgery in FORGERIES:
        if _method in _forgery.methods:

            @refusals(f"{_method} {_forgery.name}", _DEMAND, _forgery.source)
            async def forged(bench: Bench, forgery: Forgery = _forgery, method: str = _method) -> None:
                await _refused(bench, forgery, method)


@refusals("GET of the costs without a signature", _DEMAND, "platform API, 5.2 rule 1")
async def costs_unsigned(bench: Bench) -> None:
    await expect_refusal(bench, bench.draft("GET", bench.costs_path()).request(signatures=()))


@refusals("GET of a resource, sent to the costs", _DEMAND, "platform API, 5.2 rule 2")
async def costs_of_another(bench: Bench) -> None:
    there = bench.draft("GET", bench.costs_path())
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await expect_refusal(bench, there.request(draft.message()))


@refusals("GET replayed at once", "the first is answered, the second refused", _NONCE)
async def get_replayed(bench: Bench) -> None:
    await _replayed(bench, bench.draft("GET", path_of((await bench.target()).id)).request())


@refusals("GET replayed after other calls", "the first is answered, the second refused", _NONCE)
async def get_replayed_later(bench: Bench) -> None:
    id = (await bench.target()).id
    request = bench.draft("GET", path_of(id)).request()
    await _good(bench, request)
    for _ in range(3):
        await bench.call("GET", path_of(id))
    await expect_refusal(bench, request)


@refusals("GET replayed, several at once", "one of them is answered, all others are refused", _NONCE)
async def get_replayed_at_once(bench: Bench) -> None:
    request = bench.draft("GET", path_of((await bench.target()).id)).request()
    await bench.at_once(lambda one: one.send(request))
    statuses = [sent.answer.status if sent.answer else 0 for sent in bench.trail[-AT_ONCE:]]
    taken = sum(200 <= status < 300 for status in statuses)
    if taken != 1 or statuses.count(_UNAUTHORIZED) != AT_ONCE - 1:
        raise Unmet(f"{taken} of {AT_ONCE} were answered; the statuses are {', '.join(map(str, statuses))}")


@refusals("POST replayed", "the first is answered, the second refused", _NONCE)
async def post_replayed(bench: Bench) -> None:
    await _replayed(bench, bench.draft("POST", "/extensions", await bench.suspect_order()).request())


@refusals("PATCH replayed", "the first is answered, the second refused", _NONCE)
async def patch_replayed(bench: Bench) -> None:
    made = await bench.target()
    await _replayed(bench, bench.draft("PATCH", path_of(made.id), made.order).request())


@refusals(
    "DELETE replayed",
    "the first is answered, the second is refused: 401, not 404, because the nonce is checked first",
    _NONCE,
)
async def delete_replayed(bench: Bench) -> None:
    made = await bench.make(bench.order())
    await _replayed(bench, bench.draft("DELETE", path_of(made.id)).request())


@refusals(
    "GET's query sent as DELETE after it",
    "it is refused because the nonce was used, and the resource stays: the signature does not cover the "
    "method",
    "platform API, 5.2 rules 1 and 2",
)
async def get_as_delete(bench: Bench) -> None:
    made = await bench.make(bench.order())
    request = bench.draft("GET", path_of(made.id)).request()
    await _good(bench, request)
    await expect_refusal(bench, Request("DELETE", request.url, request.signatures))
    if await bench.shown(made.id) is None:
        raise Unmet("the resource is gone")


@refusals(
    "POST's body sent as PATCH",
    "it is refused: `url` is the address of the POST, and the nonce was used",
    "platform API, 5.2 rule 2",
)
async def post_as_patch(bench: Bench) -> None:
    made = await bench.target()
    request = bench.draft("POST", "/extensions", made.order).request()
    await _good(bench, request)
    there = bench.draft("PATCH", path_of(made.id), made.order)
    await expect_refusal(bench, there.request(request.body))


@refusals("a nonce used again under a new signature", "the second request is refused", _NONCE)
async def nonce_again(bench: Bench) -> None:
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await _good(bench, draft.request())
    await expect_refusal(bench, draft.request(draft.message(timestamp=draft.timestamp - 1)))


@refusals(
    "a refused request does not use up its nonce",
    "a valid request is answered, although a forgery of it was refused before",
    "platform API, 5.2: otherwise anyone who sees a request could block it",
)
async def nonce_not_used_up(bench: Bench) -> None:
    draft = bench.draft("GET", path_of((await bench.target()).id))
    await expect_refusal(bench, draft.request(signatures=(draft.sign(b"other"),)))
    await _good(bench, draft.request())


async def _good(bench: Bench, request: Request) -> None:
    succeeded(await bench.send(request), "the valid call")


async def _replayed(bench: Bench, request: Request) -> None:
    await _good(bench, request)
    body = parsed(bench.trail[-1].answer) if bench.trail[-1].answer else None
    if request.method == "POST" and isinstance(body, dict) and isinstance(body.get("id"), str):
        bench.shared.pending[body["id"]] = 1
    await expect_refusal(bench, request)
