"""What obstore raises, as one of our errors. Its own texts hold signed URLs, and are never repeated."""

import re
from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec import Struct
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from reconciler.core.errors import StoreError
from reconciler.state.log.bucket import NoAnswer, PreconditionFailed

_BUCKET_MISSING = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE)
_WRONG_KEY = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|AuthenticationFailed|"
    r"InvalidAuthenticationInfo|InvalidClientTokenId|Server failed to authenticate the request"
)
_EXPIRED = re.compile(r"ExpiredToken|AuthenticationFailed.*expire|TokenExpired|token is expired", re.DOTALL)
_DENIED = re.compile(r"code: AccessDenied")  # of one object among those that a request deletes
_NO_KEY = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|CredentialsNotLoaded|AADSTS")
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")


class _Words(Struct, frozen=True):
    """What a kind of store calls these things. `begins`: all its variables."""

    begins: str
    credentials: str
    endpoint: str
    read: str
    write: str


_WORDS = {
    "s3": _Words(
        "AWS_",
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        "AWS_ENDPOINT_URL",
        "s3:GetObject and s3:ListBucket",
        "s3:PutObject and s3:DeleteObject",
    ),
    "gs": _Words(
        "GOOGLE_",
        "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BASE_URL",
        "storage.objects.get and storage.objects.list",
        "storage.objects.create and storage.objects.delete",
    ),
    "az": _Words(
        "AZURE_",
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ENDPOINT",
        "Storage Blob Data Reader",
        "Storage Blob Data Contributor",
    ),
}
# Why a store cannot be reached, and what to do about it, by what obstore and the stores say.
_UNREACHED = tuple(
    (re.compile(said, re.IGNORECASE), cause, help)
    for said, cause, help in (
        (
            "InvalidCertificate",
            "its certificate is not accepted",
            "use the host name that it is for, and name the authority that signed it in SSL_CERT_FILE",
        ),
        (
            "InvalidContentType",
            "it does not speak TLS",
            "let it, or write http:// in the address and set {begins}ALLOW_HTTP=true",
        ),
        (
            "BadScheme",
            "its address begins with http://, which is not encrypted",
            "use https://, or set {begins}ALLOW_HTTP=true",
        ),
        (
            "BareRedirect|PermanentRedirect|AuthorizationHeaderMalformed",
            "the bucket is in another region",
            "set {begins}REGION",
        ),
        (
            "RequestTimeTooSkewed",
            "this machine's clock is wrong",
            "set it from the network, and run again",
        ),
        (
            "kind: Timeout|timed out",
            "the store did not answer in time",
            "check the store and run again",
        ),
        (
            "kind: Connect|error trying to connect|dns error",
            "no connection to the store",
            "check the network, and the address in `state.endpoint` or {endpoint}",
        ),
    )
)

T = TypeVar("T")
_Verb = Literal["read", "write"]


def reading(place: str, work: Callable[[], T], verb: _Verb = "read") -> T | None:
    """What `work` reads; None where there is no such object. Raises StoreError."""
    try:
        return work()
    except (NotFoundError, FileNotFoundError) as error:
        if _BUCKET_MISSING.search(str(error)):
            raise _no_bucket(place) from None
        return None
    except BaseError as error:
        raise _explained(place, error, verb) from None


def writing(place: str, work: Callable[[], T]) -> T:
    """What a conditional write answers. Raises PreconditionFailed, NoAnswer or StoreError."""
    try:
        return work()
    except (AlreadyExistsError, PreconditionError):
        raise PreconditionFailed from None
    except (NotFoundError, FileNotFoundError) as error:
        if _BUCKET_MISSING.search(str(error)):
            raise _no_bucket(place) from None
        raise PreconditionFailed from None  # what was to be replaced is gone
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise _explained(place, error, "write") from None
    except BaseError as error:
        if any(said.search(str(error)) for said in (_NO_KEY, _EXPIRED, _WRONG_KEY)):
            raise _explained(place, error, "write") from None
        raise NoAnswer(_unreached(place, str(error))[0]) from None


def _explained(place: str, error: BaseError, verb: _Verb) -> StoreError:
    text, words = str(error), _words(place)
    if _BUCKET_MISSING.search(text):
        return _no_bucket(place)
    if _NO_KEY.search(text):
        return StoreError(
            f"there are no credentials for the state {place}",
            help=f"set the store's own variables, such as {words.credentials}",
        )
    if _EXPIRED.search(text):
        return StoreError(
            f"the credentials for the state {place} have expired",
            help="get new ones (in CI: let the job ask for them right before this command), and run again",
        )
    refused = isinstance(error, PermissionDeniedError) or _DENIED.search(text)
    cause, help = _unreached(place, text)
    if refused and help is not None:
        return _unreachable(place, cause, help)
    if isinstance(error, UnauthenticatedError) or _WRONG_KEY.search(text):
        return StoreError(
            f"the state {place} does not accept these credentials",
            help=f"check the store's own variables, such as {words.credentials}",
        )
    if refused:
        rights = words.read if verb == "read" else words.write
        return StoreError(
            f"these credentials may not {verb} the state {place}",
            help=f"give them the right to {verb} objects: {rights}",
        )
    return _unreachable(place, cause, help)


def unusable(place: str) -> StoreError:
    """The store's own variables contradict each other, or miss one."""
    words = _words(place)
    return StoreError(
        f"the state {place} cannot be opened with these variables",
        help=f"check those that begin with {words.begins}, such as {words.credentials}",
    )


def _words(place: str) -> _Words:
    return _WORDS.get(place.partition(":")[0], _WORDS["s3"])


def _no_bucket(place: str) -> StoreError:
    return StoreError(
        f"the bucket of the state {place} does not exist",
        help="check the URL; this program makes no buckets",
    )


def _unreachable(place: str, cause: str, help: str | None) -> StoreError:
    return StoreError(
        f"the state {place} cannot be reached: {cause}", help=help or "check the store and run again"
    )


def _unreached(place: str, text: str) -> tuple[str, str | None]:
    """The cause, and what to do if that is known. In our words: the text itself may hold a signature."""
    words = _words(place)
    for said, cause, help in _UNREACHED:
        if said.search(text):
            return cause, help.format(endpoint=words.endpoint, begins=words.begins)
    if status := _STATUS.search(text):
        return f"the store answered with status {status[1] or status[2]}", None
    return "the connection to the store broke", None
