"""What is not as it was written, and how a person is told."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reconciler.core.advice import Command
from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket, restoring_a_file
from reconciler.state.marks import StateOlder

_SEAL = "sha256"

_encode = json.JSONEncoder(sort_keys=True).encode


class Damaged(Exception):
    """Says what is not as it was written; `explained` adds the place and the way out."""


class Contradiction(Damaged):
    """Root and heads do not fit each other: one of them is older, or the root was read a moment before."""


class Older(Contradiction):
    """Root or head is an older one: what was stored since is missing."""


class Gone(Exception):
    """A file that a head named is not there: the head has changed since, or the file is lost."""


class Newer(Exception):
    """A newer program wrote it."""


def sealed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields`, which are JSON, with a digest of them all."""
    return {**fields, _SEAL: _digest(fields)}


def sealed_line(fields: Mapping[str, Any]) -> str:
    """What `sealed` gives, as a line of JSON."""
    text = _encode(fields)
    return f'{text[:-1]}, "{_SEAL}": "{_digest_of(text)}"}}'


def unsealed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was sealed. Raises ValueError for anything else."""
    rest = dict(fields)
    if rest.pop(_SEAL, "") != _digest(rest):
        raise ValueError("it is not what was written")
    return rest


def _digest(fields: Mapping[str, Any]) -> str:
    return _digest_of(_encode(fields))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def explained(bucket: Bucket) -> Iterator[None]:
    """Turns what this package raises into StoreErrors that name the place, the damage and the way out."""
    try:
        yield
    except Newer as error:
        raise newer_program(bucket.place) from error
    except Gone as error:
        raise damaged(bucket.place, f"{error} is missing", bucket.way_out()) from error
    except Older as error:
        raise StateOlder(f"the state {bucket.place} was put back in part: {error}") from error
    except Damaged as error:
        raise damaged(bucket.place, str(error), bucket.way_out()) from error


def damaged(place: str, what: str, way_out: tuple[str, Command] | None = None) -> StoreError:
    """Names the damage, and what to do about it: without `way_out`, to restore a backup."""
    text, restore = way_out or restoring_a_file()
    return StoreError(f"the state {place} is damaged: {what}", help=text, advice=(restore,))


def newer_program(place: str) -> StoreError:
    """Says that only a newer version of this program reads the state."""
    return StoreError(
        f"the state {place} was written by a newer version of this program",
        help="install that version, or a newer one",
    )
