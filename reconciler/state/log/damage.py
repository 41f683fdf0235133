"""What is not as it was written, and how a person is told."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import Bucket

_SEAL = "sha256"

_encode = json.JSONEncoder(sort_keys=True).encode


class Damaged(Exception):
    """Says what is not as it was written; `explained` adds the place and the way out."""


class Gone(Exception):
    """A file that a head named is not there: the head has changed since, or the file is lost."""


class Newer(Exception):
    """A newer program wrote it."""


def sealed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields`, which are JSON, with a digest of them all."""
    return {**fields, _SEAL: _digest(fields)}


def unsealed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was sealed. Raises ValueError for anything else."""
    rest = dict(fields)
    if rest.pop(_SEAL, "") != _digest(rest):
        raise ValueError("it is not what was written")
    return rest


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(_encode(fields).encode()).hexdigest()


@contextmanager
def explained(bucket: Bucket) -> Iterator[None]:
    try:
        yield
    except Newer as error:
        raise newer_program(bucket) from error
    except Gone as error:
        raise damaged(bucket, f"{error} is missing") from error
    except Damaged as error:
        raise damaged(bucket, str(error)) from error


def damaged(bucket: Bucket, what: str) -> StoreError:
    text, restore = bucket.way_out()
    return StoreError(f"the state {bucket.place} is damaged: {what}", help=text, advice=(restore,))


def newer_program(bucket: Bucket) -> StoreError:
    return StoreError(
        f"the state {bucket.place} was written by a newer version of this program",
        help="install that version, or a newer one",
    )
