"""A bucket that obstore reaches: S3, Google Cloud Storage, Azure.

Credentials and endpoints come from the stores' own variables, which are handed in. obstore also looks at
those of the process by itself, and then for credentials of the machine (an IAM role, a workload identity).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from reconciler.core.errors import StoreError
from reconciler.state.objects.bucket import Found, Taken
from reconciler.state.objects.failures import reading, writing

_STORES: Mapping[
    str, tuple[Any, str, str]
] = {  # by scheme: its class, its variables, what an endpoint is called
    "s3": (S3Store, "AWS_", "aws_endpoint_url"),
    "gs": (GCSStore, "GOOGLE_", "google_base_url"),
    "az": (AzureStore, "AZURE_", "azure_storage_endpoint"),
}
_CONNECT, _ANSWER = timedelta(seconds=5), timedelta(seconds=20)
_READ_AGAIN = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
# obstore would send a conditional write again after a lost answer, and then find its own write in its way.
_WRITE_ONCE = {"max_retries": 0}

if TYPE_CHECKING:
    from obstore import UpdateVersion

AnyStore = S3Store | GCSStore | AzureStore | MemoryStore


class ObstoreBucket:
    """A `bucket.Bucket`. `writes`: a handle on the same place that sends each request once."""

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
        with suppress(Taken):
            reading(self._place, lambda: obstore.delete(self._reads, key))

    def list(self, prefix: str) -> Mapping[str, str]:
        return reading(self._place, lambda: dict(self._listed(prefix))) or {}

    def list_beside(self) -> tuple[str, ...]:
        found = reading(self._place, lambda: obstore.list_with_delimiter(self._reads))
        return tuple(each["path"] for each in found["objects"]) if found else ()

    def _listed(self, prefix: str) -> Iterator[tuple[str, str]]:
        for page in obstore.list(self._reads, prefix):
            for each in page:
                yield each["path"], _tag(each)


def open_bucket(url: str, variables: Mapping[str, str], endpoint: str = "") -> ObstoreBucket:
    """The bucket that `url` names, s3://BUCKET/PREFIX or gs:// or az://; nothing is sent yet.

    `variables`: the environment's. `endpoint`: where the store is, if it is not the provider's own.
    Raises StoreError for a URL or a variable that cannot be used.
    """
    scheme, name, prefix = _parts(url)
    kind, begins, endpoint_key = _STORES[scheme]
    place = f"{scheme}://{name}/{prefix}".rstrip("/")
    config = dict(_config(kind, name, begins, variables))
    if endpoint:
        config[endpoint_key] = endpoint
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
        raise StoreError(
            f"the state {place} cannot be opened with these variables",
            help=f"check those that begin with {begins}",
        ) from error


def _parts(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    name = parts.hostname or ""
    if parts.scheme not in _STORES or not name or parts.username or parts.query or parts.fragment:
        raise StoreError(
            "the state's URL names no place in an object store",
            help="write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; "
            "credentials belong in the store's own variables",
        )
    return parts.scheme, parts.netloc, parts.path.strip("/")


def _config(kind: Any, name: str, begins: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of `variables` that this kind of store knows."""
    for variable, value in variables.items():
        if variable.startswith(begins) and not variable.endswith("_ALLOW_HTTP"):
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
