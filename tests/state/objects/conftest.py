"""Object stores for tests: moto's S3 over HTTP, one server for each worker, and a bucket for each test."""

import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer

from reconciler.state.objects.driver import ObstoreBucket, open_bucket


@dataclass(frozen=True)
class S3:
    """A bucket of a server. `variables`: what a shell would have."""

    endpoint: str
    bucket: str

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/team/state"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def open(self) -> ObstoreBucket:
        return open_bucket(self.url, self.variables)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def make_s3(moto_server: str) -> Callable[[], S3]:
    """Makes a new bucket."""

    def make() -> S3:
        s3 = S3(moto_server, f"bucket-{uuid.uuid4().hex[:12]}")
        urlopen(Request(f"{moto_server}/{s3.bucket}", method="PUT")).close()
        return s3

    return make


@pytest.fixture
def s3(make_s3: Callable[[], S3]) -> S3:
    return make_s3()
