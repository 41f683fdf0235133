"""Whether an object store keeps its word: of conditional writes at the same moment none is lost.

One request after another proves nothing: one gateway answers every single one right, and loses more than half
of the writes that come at the same moment.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from reconciler.core.errors import StoreError
from reconciler.state.log import writes
from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed

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
    if isinstance(first, writes.Conflict):
        raise _refused(bucket, "it holds what was never written")
    stale = first.tag
    second = writes.replace(bucket, key, nonce().encode(), stale)
    if isinstance(second, writes.Conflict):
        raise _refused(bucket, "it refuses to replace an object by its tag")
    with suppress(PreconditionFailed, NoAnswer):
        bucket.create(key, nonce().encode())
        raise _refused(bucket, "it writes over an object that should not be there")
    with suppress(PreconditionFailed, NoAnswer):
        bucket.replace(key, nonce().encode(), stale)
        raise _refused(bucket, "it writes over an object that has changed")


def _count(bucket: Bucket, key: str, nonce: Callable[[], str]) -> None:
    """Several writers count together, and each counts how often it was told that it did."""
    if isinstance(writes.create(bucket, key, _body([0] * _WRITERS, nonce)), writes.Conflict):
        raise _refused(bucket, "it holds what was never written")
    with ThreadPoolExecutor(_WRITERS) as threads:
        told = sum(threads.map(lambda writer: _increments(bucket, key, writer, nonce), range(_WRITERS)))
    kept = sum(_counts(bucket, bucket.get(key)))
    if kept != told:
        raise _refused(bucket, f"it lost {told - kept} of {told} changes that were made at the same time")


def _increments(bucket: Bucket, key: str, writer: int, nonce: Callable[[], str]) -> int:
    for _ in range(_TIMES):
        if not any(_increment(bucket, key, writer, nonce) for _ in range(_TRIES)):
            raise _refused(bucket, f"it refused a change {_TRIES} times, although others got theirs")
    return _TIMES


def _increment(bucket: Bucket, key: str, writer: int, nonce: Callable[[], str]) -> bool:
    """Whether it landed. Each writer has a number of its own, which nobody else raises.

    So it also shows a change whose answer was lost and that another writer has written over since.
    """
    found = bucket.get(key)
    counts = _counts(bucket, found)
    before = counts[writer]
    counts[writer] += 1
    outcome = writes.replace(bucket, key, _body(counts, nonce), found.tag if found else "")
    return isinstance(outcome, writes.Stored) or _counts(bucket, outcome.found)[writer] > before


def _counts(bucket: Bucket, found: Found | None) -> list[int]:
    if found is None:
        raise _refused(bucket, "an object was not there that had been written")
    counts: list[int] = json.loads(found.body)["counts"]
    return counts


def _body(counts: list[int], nonce: Callable[[], str]) -> bytes:
    return json.dumps({"counts": counts, "nonce": nonce()}).encode()


def _refused(bucket: Bucket, what: str) -> StoreError:
    return StoreError(
        f"a state cannot be kept in {bucket.place}: {what}",
        help="two runners would overwrite each other's work there; name another store, or mend this one",
    )
