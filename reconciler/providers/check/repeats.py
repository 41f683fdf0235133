"""The same id again: how a lost answer is healed, so it has to give the same result."""

import anyio

from reconciler.providers.check.bench import Bench, Unmet, check, object_of, path_of
from reconciler.providers.check.calls import check_same_result
from reconciler.providers.check.evidence import Exchange

_SOURCE = "platform API, 2.7: `id` is unique; 4.5 rule 3: idempotently; notes: POST of the same id again"
_AT_ONCE = 4
_BUSY = 409


async def _again(bench: Bench, first: Exchange, order: object) -> None:
    assert isinstance(order, dict)
    await bench.call("POST", "/extensions", order)
    check_same_result(first, bench.trail[-1])


async def _complete(bench: Bench) -> tuple[dict[str, object], Exchange, str]:
    """A ready resource: its order, the answer that holds its whole configuration, and its id."""
    made = await bench.make(bench.order())
    first = made.answer
    if made.answer.answer is not None and made.answer.answer.status == 202:  # its `config` came later
        answer = await bench.call("POST", "/extensions", made.order)
        if made.settled and answer.status == 202:
            raise Unmet(
                "the resource is ready, but the same id again is still answered 202, without a `config`"
            )
        first = bench.trail[-1]
    return dict(made.order), first, made.id


@check("repeats", "one after the other", "the same id again gives the same `id` and `config`", _SOURCE)
async def one_after_the_other(bench: Bench) -> None:
    order, first, _ = await _complete(bench)
    for _ in range(2):
        await _again(bench, first, order)


@check(
    "repeats",
    "after other calls",
    "the same id again, after a GET and a PATCH, gives the same `id` and `config`",
    _SOURCE,
)
async def after_other_calls(bench: Bench) -> None:
    order, first, id = await _complete(bench)
    await bench.call("GET", path_of(id))
    await bench.call("PATCH", path_of(id), order)
    await bench.call("GET", path_of(id))
    await _again(bench, first, order)


@check(
    "repeats",
    f"{_AT_ONCE} at once",
    "the same id several times at once creates one resource: every 2xx has the same `id`, other calls may be "
    "answered 409, and afterwards the same id gives the same `config` each time",
    _SOURCE,
)
async def at_once(bench: Bench) -> None:
    order = bench.order()
    benches = [Bench(bench.shared) for _ in range(_AT_ONCE)]

    async def post(one: Bench) -> None:
        try:
            await one.call("POST", "/extensions", order)
        except Unmet:
            return  # its exchange says that there is no answer

    async with anyio.create_task_group() as tasks:
        for one in benches:
            tasks.start_soon(post, one)
    ids = set()
    for one in benches:
        bench.trail.append(one.trail[-1])
        answer = one.trail[-1].answer
        if answer is None:
            raise Unmet("one of the calls was not answered")
        if 200 <= answer.status < 300:
            ids.add(object_of(answer).get("id"))
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
        if last.answer is not None and 200 <= last.answer.status < 300 and last.answer.status != 202:
            bench.trail.append(last)
            check_same_result(first, last)
    await _again(bench, first, order)
