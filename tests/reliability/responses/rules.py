"""What no answer may bring about, checked by the requests, and by the objects of the platform."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.reliability.responses.line import Exchange

LISTS_WITHOUT_A_TRACE = 3  # DESIGN, section 5

# DESIGN, section 5: whoever sends these, nothing happened; and these, unless a proxy's page says so.
_NO = frozenset({401, 403, 413, 415, 429})
_NO_IN_JSON = frozenset({400, 404, 409, 410, 412, 422})


def nothing_was_sent(exchanges: Sequence[Exchange]) -> list[str]:
    return [f"{sent.method} {sent.path} was sent" for sent in exchanges if sent.mutates]


def nothing_was_made(exchanges: Sequence[Exchange]) -> list[str]:
    return nothing_was_sent([sent for sent in exchanges if is_create(sent)])


def nothing_was_made_or_removed(exchanges: Sequence[Exchange]) -> list[str]:
    return nothing_was_sent([sent for sent in exchanges if sent.method == "DELETE" or is_create(sent)])


def each_call_went_out_once(exchanges: Sequence[Exchange]) -> Iterator[str]:
    """A create only again when the one before provably made nothing, an absolute call at most twice."""
    sends: dict[tuple[str, str, bytes], list[int]] = {}
    for at, exchange in enumerate(exchanges):
        if exchange.mutates:
            sends.setdefault((exchange.method, exchange.path, exchange.body), []).append(at)
    for (method, path, _), places in sends.items():
        # A 429 says that nothing was done: the call is tried again when the platform says so.
        taken = [at for at in places if exchanges[at].given.status != 429]
        if len(taken) > 2:
            yield f"{method} {path} was sent {len(taken)} times"
        if method != "POST" or "/secrets/" in path:
            continue
        for first, second in pairwise(places):
            lost = exchanges[first]
            if provably_no(lost):
                continue
            if lost.carried_out and lost.given.failure != "connect":
                yield f"{method} {path} was sent again although the first had its effect"
            elif len(clean_lists(exchanges[first:second], path)) < LISTS_WITHOUT_A_TRACE:
                lists = f"{LISTS_WITHOUT_A_TRACE} lists that show no trace"
                yield f"{method} {path} was sent again without {lists}"


def is_create(exchange: Exchange) -> bool:
    end = exchange.path.rsplit("/", 1)[-1]
    return exchange.method == "POST" and end in ("volumes", "postgres", "restore")


def clean_lists(exchanges: Sequence[Exchange], path: str) -> list[Exchange]:
    """The answered lists of what a POST to `path` makes that showed what there was."""
    path = "/v1/postgres" if path.endswith("/restore") else path
    return [
        each
        for each in exchanges
        if each.method == "GET"
        and each.path.partition("?")[0] == path
        and each.kind in ("", "extra", "odd")
        and each.given.status == 200
        and not each.given.failure
    ]


def provably_no(exchange: Exchange) -> bool:
    given = exchange.given
    if given.failure:
        return given.failure == "connect"
    headers = {name.lower(): value for name, value in given.headers}
    html = b"html" in headers.get(b"content-type", b"").lower() or given.body.lstrip()[:1] == b"<"
    return given.status in _NO or (given.status in _NO_IN_JSON and not html)


def no_duplicates(world: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """More than one live object of a name: all names in the scenes are wanted once."""
    gone = ("pending_destroy", "destroyed", "deleted", "deleting")
    for kind, state in (("volumes", "state"), ("clusters", "status")):
        names = Counter(item["name"] for item in world[kind] if item[state] not in gone)
        for name, number in names.items():
            if number > 1:
                yield f"there are {number} {kind} called {name}"


def no_value_is_told(told: str, value: str) -> Iterator[str]:
    if value in told or json.dumps(value)[1:-1] in told:
        yield "the value of a secret is shown"


def it_can_be_written(told: str) -> Iterator[str]:
    """On a terminal or into a file that takes UTF-8 and nothing else."""
    try:
        told.encode()
    except UnicodeEncodeError as failure:
        yield f"what is told cannot be written: {failure}"
