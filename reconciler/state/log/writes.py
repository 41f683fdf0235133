"""Conditional writes whose outcome is known: if no answer came, the object itself is read.

Each body that is written holds a nonce of its own. So a body that is found again tells that it landed, and a
tag that is made from the body never comes back for an older one.
"""

from msgspec import Struct

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket, Found, NoAnswer, PreconditionFailed

_NOT_THERE = "it said that the object exists, which is not there"
_UNCHANGED = "it said that the object has changed, which has not"
_TIMES = 3  # how often a write is sent at most, always with the same body


class Stored(Struct, frozen=True):
    tag: str


class Conflict(Struct, frozen=True):
    """Another write came first. `found`: what is there now; None: nothing."""

    found: Found | None


def create(bucket: Bucket, key: str, body: bytes) -> Stored | Conflict:
    """Write an object that must not exist. Raises StoreError where it is not known whether it landed."""
    cause = ""
    for _ in range(_TIMES):
        try:
            return Stored(bucket.create(key, body))
        except NoAnswer as unanswered:
            cause = unanswered.cause
        except PreconditionFailed:
            cause = _NOT_THERE
        found = bucket.get(key)
        if found is not None:
            return Stored(found.tag) if found.body == body else Conflict(found)
    raise unsettled(bucket, cause)


def replace(bucket: Bucket, key: str, body: bytes, tag: str) -> Stored | Conflict:
    """Write over the object with this tag. Raises StoreError where it is not known whether it landed.

    Conflict does not say that it never landed: another may have written over it since.
    """
    cause = ""
    for _ in range(_TIMES):
        try:
            return Stored(bucket.replace(key, body, tag))
        except NoAnswer as unanswered:
            cause = unanswered.cause
        except PreconditionFailed:
            cause = _UNCHANGED
        found = bucket.get(key)
        if found is not None and found.body == body:
            return Stored(found.tag)
        if found is None or found.tag != tag:
            return Conflict(found)
    raise unsettled(bucket, cause)


def unsettled(bucket: Bucket, cause: str) -> StoreError:
    help = "check the store and run again; the next run finds out what was stored"
    if cause in (_NOT_THERE, _UNCHANGED):
        help = "this store has no conditional writes that work: keep the state in another one"
    return StoreError(f"the state {bucket.place} did not take a change: {cause}", help=help)
