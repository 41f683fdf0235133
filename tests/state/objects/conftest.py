"""Object stores for tests: S3 over HTTP, one server for each worker, and a prefix for each test.

The server is moto's, or that of the variable TEST_S3 (http://127.0.0.1:8333): it has a bucket `states` for
the key `key` with the secret `secret`.
"""

import logging
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer

from reconciler.state.objects.driver import ObstoreBucket, open_bucket
from tests.state.objects import servers
from tests.state.objects.servers import BUCKET


@dataclass(frozen=True)
class S3:
    """A place on a server. `variables`: what a shell would have."""

    endpoint: str
    url: str

    @property
    def variables(self) -> dict[str, str]:
        return servers.variables(self.endpoint)

    def open(self) -> ObstoreBucket:
        return open_bucket(self.url, self.variables)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    if "TEST_S3" in os.environ:
        yield os.environ["TEST_S3"]
        return
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/{BUCKET}", method="PUT")).close()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def make_s3(moto_server: str) -> Callable[[], S3]:
    """Makes a new place."""

    def make() -> S3:
        return S3(moto_server, f"s3://{BUCKET}/team/{uuid.uuid4().hex[:12]}")

    return make


@pytest.fixture
def s3(make_s3: Callable[[], S3]) -> S3:
    return make_s3()
