"""What obstore raises, as one of our errors. Its own texts hold signed URLs, and are never repeated."""

import re
from collections.abc import Callable
from typing import TypeVar

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from reconciler.core.errors import StoreError
from reconciler.state.objects.bucket import Taken, Unanswered

_BUCKET_MISSING = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE)
_WRONG_KEY = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|AuthenticationFailed|"
    r"InvalidAuthenticationInfo|InvalidClientTokenId"
)
_NO_KEY = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|CredentialsNotLoaded|AADSTS")
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_REFUSED_CONNECTION = re.compile(r"kind: Connect|error trying to connect|dns error", re.IGNORECASE)
_TIMEOUT = re.compile(r"kind: Timeout|timed out", re.IGNORECASE)

T = TypeVar("T")


def reading(place: str, work: Callable[[], T]) -> T | None:
    """What `work` reads; None where there is no such object. Raises StoreError."""
    try:
        return work()
    except (NotFoundError, FileNotFoundError) as error:
        if _BUCKET_MISSING.search(str(error)):
            raise _no_bucket(place) from None
        return None
    except BaseError as error:
        raise _explained(place, error, "read") from None


def writing(place: str, work: Callable[[], T]) -> T:
    """What a conditional write answers. Raises Taken, Unanswered or StoreError."""
    try:
        return work()
    except (AlreadyExistsError, PreconditionError):
        raise Taken from None
    except (NotFoundError, FileNotFoundError) as error:
        if _BUCKET_MISSING.search(str(error)):
            raise _no_bucket(place) from None
        raise Taken from None  # what was to be replaced is gone
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise _explained(place, error, "write") from None
    except BaseError as error:
        if _NO_KEY.search(str(error)):
            raise _explained(place, error, "write") from None
        raise Unanswered(_cause(str(error))) from None


def _explained(place: str, error: BaseError, verb: str) -> StoreError:
    text = str(error)
    if _BUCKET_MISSING.search(text):
        return _no_bucket(place)
    if _NO_KEY.search(text):
        return StoreError(
            f"there are no credentials for the state {place}",
            help="set the store's own variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if isinstance(error, UnauthenticatedError) or _WRONG_KEY.search(text):
        return StoreError(
            f"the state {place} does not accept these credentials",
            help="check the store's own variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if isinstance(error, PermissionDeniedError):
        rights = "s3:GetObject and s3:ListBucket" if verb == "read" else "s3:PutObject and s3:DeleteObject"
        return StoreError(
            f"these credentials may not {verb} the state {place}",
            help=f"give them the right to {verb} objects (on S3: {rights})",
        )
    return StoreError(
        f"the state {place} cannot be reached: {_cause(text)}", help="check the store and run again"
    )


def _no_bucket(place: str) -> StoreError:
    return StoreError(
        f"the bucket of the state {place} does not exist",
        help="check the URL; this program makes no buckets",
    )


def _cause(text: str) -> str:
    """In our words: the text itself may hold a signature."""
    if status := _STATUS.search(text):
        return f"the store answered with status {status[1] or status[2]}"
    if _TIMEOUT.search(text):
        return "the store did not answer in time"
    if _REFUSED_CONNECTION.search(text):
        return "no connection to the store"
    return "the connection to the store broke"
