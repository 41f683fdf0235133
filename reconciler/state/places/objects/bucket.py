"""A bucket that obstore reaches: S3, Google Cloud Storage, Azure.

Credentials and endpoints come from the stores' own variables, which are handed in. obstore also looks at
those of the process by itself, and then for credentials of the machine (an IAM role, a workload identity).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.core.state_url import LEASE_S
from reconciler.services.transport import http_parts
from reconciler.state.log.bucket import Bucket, Found, PreconditionFailed, unsealed
from reconciler.state.log.lease_beats import Watched
from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.errors import reading, unusable, writing

# By scheme: its class, how its variables begin, and those that say where it is, the first one first.
_STORES: Mapping[str, tuple[Any, str, tuple[str, ...]]] = {
    "s3": (S3Store, "AWS_", ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint")),
    "gs": (GCSStore, "GOOGLE_", ("google_base_url",)),
    "az": (AzureStore, "AZURE_", ("azure_storage_endpoint", "azure_endpoint")),
}
_OF_THE_URL = {  # what the URL says, and no variable
    *("aws_bucket", "aws_bucket_name", "google_bucket", "google_bucket_name"),
    *("azure_container", "azure_container_name"),
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_CONNECT, _ANSWER = timedelta(seconds=5), timedelta(seconds=20)
_READ_AGAIN = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
# obstore would send a conditional write again after a lost answer, and then find its own write in its way.
_WRITE_ONCE = {"max_retries": 0}

if TYPE_CHECKING:
    from obstore import UpdateVersion

AnyStore = S3Store | GCSStore | AzureStore | MemoryStore


class ObstoreBucket(Bucket):
    """`writes`: a handle on the same place that sends each request once."""

    def __init__(self, place: str, reads: AnyStore, writes: AnyStore) -> None:
        self._place = place
        self._reads = reads
        self._writes = writes

    @property
    def place(self) -> str:
        return self._place

    def get(self, key: str) -> Found | None:
        def work() -> Found:
            answer = obstore.get(self._reads, key)
            return Found(bytes(answer.bytes()), _tag(answer.meta))

        return reading(self._place, work)

    def create(self, key: str, body: bytes) -> str:
        def work() -> str:
            return _tag(obstore.put(self._writes, key, body, mode="create", use_multipart=False))

        return writing(self._place, work)

    def replace(self, key: str, body: bytes, tag: str) -> str:
        def work() -> str:
            return _tag(obstore.put(self._writes, key, body, mode=_mode(tag), use_multipart=False))

        return writing(self._place, work)

    def delete(self, key: str) -> None:
        with suppress(PreconditionFailed):
            reading(self._place, lambda: obstore.delete(self._reads, key), "write")

    def list(self, prefix: str) -> Mapping[str, str]:
        return reading(self._place, lambda: dict(self._listed(prefix))) or {}

    def list_beside(self) -> tuple[str, ...]:
        found = reading(self._place, lambda: obstore.list_with_delimiter(self._reads))
        return tuple(item["path"] for item in found["objects"]) if found else ()

    def _listed(self, prefix: str) -> Iterator[tuple[str, str]]:
        for page in obstore.list(self._reads, prefix):
            for item in page:
                yield item["path"], _tag(item)


def open_bucket(url: str, variables: Mapping[str, str], endpoint: str = "") -> ObstoreBucket:
    """The bucket that `url` names, s3://BUCKET/PREFIX or gs:// or az://; nothing is sent yet.

    `variables`: the environment's. `endpoint`: where the store is, if it is not the provider's own.
    Raises StoreError for a URL or a variable that cannot be used.
    """
    scheme, name, prefix = _parts(url)
    kind, begins, addresses = _STORES[scheme]
    place = f"{scheme}://{name}/{prefix}".rstrip("/")
    config = dict(_config(kind, name, begins, variables))
    found = [address for address in (endpoint, *(config.pop(key, "") for key in addresses)) if address]
    if found:
        _refuse_unusable(found[0], place, addresses)
        config[addresses[0]] = found[0]
    client = {
        "connect_timeout": _CONNECT,
        "timeout": _ANSWER,
        "allow_http": variables.get(f"{begins}ALLOW_HTTP", "").lower() in ("true", "1") or _local(endpoint),
    }

    def opened(retry: Mapping[str, Any]) -> Any:
        return kind(name, prefix=prefix or None, config=config, client_options=client, retry_config=retry)

    try:
        return ObstoreBucket(place, opened(_READ_AGAIN), opened(_WRITE_ONCE))
    except (BaseError, ValueError) as error:
        raise unusable(place) from error


def open_objects(
    url: str,
    clock: Clock,
    *,
    variables: Mapping[str, str],
    endpoint: str = "",
    environment: str = "",
    read_only: bool = False,
    lease_s: float = LEASE_S,
    seal: Callable[[Bucket], Bucket] = unsealed,
) -> LogStore:
    """The state at `url`, in the bucket that `open_bucket` gives, which `seal` may encrypt."""
    bucket = seal(open_bucket(url, variables, endpoint))
    watched = Watched(clock, lease_s)
    return LogStore(bucket, clock, exclusion=watched, environment=environment, read_only=read_only)


def _parts(url: str) -> tuple[str, str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # half of an IPv6 host
        parts = urlsplit("")
    prefix = parts.path.strip("/")
    known = parts.scheme in _STORES and _NAME.fullmatch(parts.netloc)
    strange = parts.query or parts.fragment or (prefix and {"", ".", ".."} & set(prefix.split("/")))
    if not known or strange:
        raise StoreError(
            "the state's URL names no place in an object store",
            help="write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; "
            "credentials belong in the store's own variables",
        )
    return parts.scheme, parts.netloc, prefix


def _refuse_unusable(endpoint: str, place: str, names: Sequence[str]) -> None:
    """Of an address that is not one, obstore makes a panic."""
    if http_parts(endpoint) is None:
        raise StoreError(
            f"the address of the store of {place} is not a URL",
            help=f"write it as https://HOST in `state.endpoint` or {names[-1].upper()}",
        )


def _config(kind: Any, name: str, begins: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of `variables` that this kind of store knows."""
    for variable, value in variables.items():
        known = variable.startswith(begins) and variable.lower() not in _OF_THE_URL
        if known and not variable.endswith("_ALLOW_HTTP"):
            try:
                kind(name, config={variable.lower(): value})
            except UnknownConfigurationKeyError:
                continue
            except BaseError:
                pass  # it knows this one, and misses another one beside it
            yield variable.lower(), value


def _local(endpoint: str) -> bool:
    return endpoint.startswith("http:") and urlsplit(endpoint).hostname in ("127.0.0.1", "localhost", "::1")


def _mode(tag: str) -> "UpdateVersion":
    """Replace what has this tag. A version of None is a TypeError, so it is left out where there is none."""
    e_tag, _, version = tag.partition("\n")
    return {"e_tag": e_tag, "version": version} if version else {"e_tag": e_tag}


def _tag(meta: Any) -> str:
    """The ETag, and the version where there is one: Google compares that, and lists do not give it."""
    tag = meta["e_tag"]
    if not tag:
        raise StoreError(
            "the object store returns no tags (ETag), so conditional writes are impossible",
            help="name another store",
        )
    return f"{tag}\n{version}" if (version := meta.get("version")) else str(tag)
