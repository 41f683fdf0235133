"""Object stores for tests: S3 over HTTP, one server for each worker, and a prefix for each test.

The server is moto's, or that of the variable TEST_S3 (http://127.0.0.1:8333): it has a bucket `states` for
the key `key` with the secret `secret`. Or it is that of TEST_AZURE, an emulator with a container `states` in
its usual account. `python -m tests.state.objects.real` starts both.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from reconciler.state.places.objects.bucket import ObstoreBucket, open_bucket
from tests.state.objects import moto_s3, servers
from tests.state.objects.servers import BUCKET


@dataclass(frozen=True)
class S3:
    """A place on a server. `variables`: what a shell would have."""

    endpoint: str
    url: str

    @property
    def variables(self) -> dict[str, str]:
        if self.url.startswith("az:"):
            return servers.azure_variables(self.endpoint)
        return servers.variables(self.endpoint)

    def open(self) -> ObstoreBucket:
        return open_bucket(self.url, self.variables)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    for given in ("TEST_S3", "TEST_AZURE"):
        if given in os.environ:
            yield os.environ[given]
            return
    with moto_s3.serving(BUCKET) as url:
        yield url


@pytest.fixture
def make_s3(moto_server: str) -> Callable[[], S3]:
    """Makes a new place."""

    def make() -> S3:
        scheme = "az" if "TEST_AZURE" in os.environ else "s3"
        return S3(moto_server, f"{scheme}://{BUCKET}/team/{uuid.uuid4().hex[:12]}")

    return make


@pytest.fixture
def s3(make_s3: Callable[[], S3]) -> S3:
    return make_s3()
