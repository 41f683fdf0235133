"""Conditional writes whose outcome is known: if no answer came, the object itself is read.

Each body that is written holds a nonce of its own. So a body that is found again tells that it landed, and a
tag that is made from the body never comes back for an older one.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from msgspec import Struct

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed

_NOT_THERE = "it said that the object exists, which is not there"
_UNCHANGED = "it said that the object has changed, which has not"
_TIMES = 3  # how often a write is sent at most, always with the same body


class Stored(Struct, frozen=True):
    """The write landed. `tag`: of the object now."""

    tag: str


class Conflict(Struct, frozen=True):
    """Another write came first. `found`: what is there now; None: nothing."""

    found: Found | None


def create(bucket: Bucket, key: str, body: bytes) -> Stored | Conflict:
    """Write an object that must not exist. Raises StoreError where it is not known whether it landed."""
    return replace(bucket, key, body, "")


def replace(bucket: Bucket, key: str, body: bytes, tag: str) -> Stored | Conflict:
    """Write over the object with this tag; "": as `create`. Raises as that does.

    Conflict does not say that it never landed: another may have written over it since.
    """
    cause = ""
    for _ in range(_TIMES):
        try:
            return Stored(bucket.replace(key, body, tag) if tag else bucket.create(key, body))
        except NoAnswer as unanswered:
            cause = unanswered.cause
        except PreconditionFailed:
            cause = _UNCHANGED if tag else _NOT_THERE
        found = bucket.get(key)
        if found is not None and found.body == body:
            return Stored(found.tag)
        if (found.tag if found is not None else "") != tag:
            return Conflict(found)
    raise unsettled(bucket, cause)


def unsettled(bucket: Bucket, cause: str) -> StoreError:
    """Says that nobody knows whether a write landed, and what to do about it."""
    help = "check the store and run again; the next run finds out what was stored"
    if cause in (_NOT_THERE, _UNCHANGED):
        help = "this store has no conditional writes that work: keep the state in another one"
    return StoreError(f"the state {bucket.place} did not take a change: {cause}", help=help)


# --- probing a store ---

_WRITERS = 4
_INCREMENTS = 20
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
    first = create(bucket, key, nonce().encode())
    if isinstance(first, Conflict):
        raise _refused(bucket, "it holds what was never written")
    stale = first.tag
    second = replace(bucket, key, nonce().encode(), stale)
    if isinstance(second, Conflict):
        raise _refused(bucket, "it refuses to replace an object by its tag")
    with suppress(PreconditionFailed, NoAnswer):
        bucket.create(key, nonce().encode())
        raise _refused(bucket, "it writes over an object that should not be there")
    with suppress(PreconditionFailed, NoAnswer):
        bucket.replace(key, nonce().encode(), stale)
        raise _refused(bucket, "it writes over an object that has changed")


def _count(bucket: Bucket, key: str, nonce: Callable[[], str]) -> None:
    """Several writers count together, and each counts how often it was told that it did."""
    if isinstance(create(bucket, key, _body([0] * _WRITERS, nonce)), Conflict):
        raise _refused(bucket, "it holds what was never written")
    with ThreadPoolExecutor(_WRITERS) as threads:
        told = sum(threads.map(lambda writer: _increments(bucket, key, writer, nonce), range(_WRITERS)))
    kept = sum(_counts(bucket, bucket.get(key)))
    if kept != told:
        raise _refused(bucket, f"it lost {told - kept} of {told} changes that were made at the same time")


def _increments(bucket: Bucket, key: str, writer: int, nonce: Callable[[], str]) -> int:
    for _ in range(_INCREMENTS):
        if not any(_increment(bucket, key, writer, nonce) for _ in range(_TRIES)):
            raise _refused(bucket, f"it refused a change {_TRIES} times, although others got theirs")
    return _INCREMENTS


def _increment(bucket: Bucket, key: str, writer: int, nonce: Callable[[], str]) -> bool:
    """Whether it landed. Each writer has a number of its own, which nobody else raises.

    So it also shows a change whose answer was lost and that another writer has written over since.
    """
    found = bucket.get(key)
    counts = _counts(bucket, found)
    before = counts[writer]
    counts[writer] += 1
    outcome = replace(bucket, key, _body(counts, nonce), found.tag if found else "")
    return isinstance(outcome, Stored) or _counts(bucket, outcome.found)[writer] > before


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
