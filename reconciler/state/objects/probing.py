"""Whether an object store keeps its word: of conditional writes at the same moment none is lost.

One request after another proves nothing: one gateway answers every single one right, and loses more than half
of the writes that come at the same moment.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from reconciler.core.errors import StoreError
from reconciler.state.objects import writes
from reconciler.state.objects.bucket import Bucket, Taken, Unanswered

_WRITERS = 4
_TIMES = 20
_TRIES = 50  # of one increment; others come first now and then


def probe(bucket: Bucket, folder: str, nonce: Callable[[], str]) -> None:
    """Raises StoreError that says which promise the store broke. Leaves nothing behind."""
    one, counter = f"{folder}{nonce()}/once", f"{folder}{nonce()}/counter"
    try:
        _write_once(bucket, one, nonce)
        _count(bucket, counter, nonce)
        if {one, counter} - set(bucket.list(folder)):
            raise _refused(bucket, "its lists do not show what was just written")
    finally:
        for key in (one, counter):
            with suppress(StoreError):
                bucket.delete(key)


def _write_once(bucket: Bucket, key: str, nonce: Callable[[], str]) -> None:
    first = writes.create(bucket, key, nonce().encode())
    if isinstance(first, writes.Beaten):
        raise _refused(bucket, "it holds what was never written")
    stale = first.tag
    second = writes.replace(bucket, key, nonce().encode(), stale)
    if isinstance(second, writes.Beaten):
        raise _refused(bucket, "it refuses to replace an object by its tag")
    with suppress(Taken, Unanswered):
        bucket.create(key, nonce().encode())
        raise _refused(bucket, "it writes over an object that should not be there")
    with suppress(Taken, Unanswered):
        bucket.replace(key, nonce().encode(), stale)
        raise _refused(bucket, "it writes over an object that has changed")


def _count(bucket: Bucket, key: str, nonce: Callable[[], str]) -> None:
    """Several writers count together, and each counts how often it was told that it did."""
    if isinstance(writes.create(bucket, key, _body(0, nonce)), writes.Beaten):
        raise _refused(bucket, "it holds what was never written")
    with ThreadPoolExecutor(_WRITERS) as threads:
        told = sum(threads.map(lambda _: _increments(bucket, key, nonce), range(_WRITERS)))
    found = bucket.get(key)
    kept = json.loads(found.body)["count"] if found is not None else 0
    if kept != told:
        raise _refused(bucket, f"it lost {told - kept} of {told} changes that were made at the same time")


def _increments(bucket: Bucket, key: str, nonce: Callable[[], str]) -> int:
    for _ in range(_TIMES):
        if not any(_increment(bucket, key, nonce) for _ in range(_TRIES)):
            raise _refused(bucket, f"it refused a change {_TRIES} times, although others got theirs")
    return _TIMES


def _increment(bucket: Bucket, key: str, nonce: Callable[[], str]) -> bool:
    found = bucket.get(key)
    if found is None:
        raise _refused(bucket, "an object was not there that had been written")
    body = _body(json.loads(found.body)["count"] + 1, nonce)
    return isinstance(writes.replace(bucket, key, body, found.tag), writes.Landed)


def _body(count: int, nonce: Callable[[], str]) -> bytes:
    return json.dumps({"count": count, "nonce": nonce()}).encode()


def _refused(bucket: Bucket, what: str) -> StoreError:
    return StoreError(
        f"a state cannot be kept in {bucket.place}: {what}",
        help="two runners would overwrite each other's work there; name another store, or mend this one",
    )
