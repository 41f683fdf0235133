"""The reference provider as a real process, and a platform that signs what it sends there.

Import `provider` into a conftest together with `postgres`: one provider with two workers for each session.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reconciler.services import signing
from tests.providers.postgres import Postgres

SIGNING_SECRET = "signing-secret-of-the-tests"
WEBHOOK_SECRET = "webhook-secret-of-the-tests"
CLIENT_SECRET = "client-secret-of-the-tests"
PATIENCE_S = 60  # for what only a bug makes that long


def order(id: str, **changes: Any) -> dict[str, Any]:
    """The body of a provisioning POST, without its signing parameters."""
    return {
        "id": id,
        "name": f"shop-{id}",
        "organization_id": "org-1",
        "organization_name": "The Shop",
        "user_id": "user-1",
        "user_email": "alias-1@example.com",
        "user_role": "admin",
        "primary_region": "ams",
        **changes,
    }


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Platform:
    """Signs requests for the provider at `public_url` and sends them to `address` (by default: there)."""

    public_url: str
    address: str = ""
    secret: str = SIGNING_SECRET
    encoding: signing.Encoding = "hex"

    def sign(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timestamp: int | None = None,
        nonce: str | None = None,
    ) -> signing.Signed:
        return signing.sign(
            method,
            f"{self.public_url}{path}",
            body,
            self.secret.encode(),
            timestamp=int(time.time()) if timestamp is None else timestamp,
            nonce=nonce or secrets.token_hex(16),
            encoding=self.encoding,
        )

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        return self.send(self.sign(method, path, body))

    def send(self, request: signing.Signed, address: str = "") -> Reply:
        """Send it as it is, to the path and query of its own URL."""
        target = request.url.removeprefix(_origin(request.url)) or "/"
        headers = [(signing.HEADER, signature) for signature in request.signatures]
        if request.body:
            headers.append(("Content-Type", "application/json"))
        return send(address or self.address or self.public_url, request.method, target, headers, request.body)

    def provision(self, id: str, **changes: Any) -> Reply:
        return self.call("POST", "/extensions", order(id, **changes))

    def event(self, body: Mapping[str, Any], **headers: str) -> Reply:
        """A machine event; `headers` by names like `ce_id`, an empty one left out."""
        raw = json.dumps(body).encode()
        given = {
            "ce_id": secrets.token_hex(8),
            "ce_source": "/machines",
            "ce_type": "io.platform.machine.started",
            "ce_specversion": "1.0",
            "ce_time": "2026-01-01T00:00:00Z",
            **headers,
        }
        sent = [(name.replace("_", "-"), value) for name, value in given.items() if value]
        sent.append(("Content-Type", "application/json"))
        sent.append((signing.HEADER, signing.signature(self.secret.encode(), raw, self.encoding)))
        return send(self.address or self.public_url, "POST", "/extensions/events", sent, raw)


def send(address: str, method: str, target: str, headers: Any = (), body: bytes = b"") -> Reply:
    """One request on a connection of its own; header names may occur twice."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
    try:
        connection.putrequest(method, target)
        for name, value in headers:
            connection.putheader(name, value)
        if body or method in ("POST", "PATCH", "PUT"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
    finally:
        connection.close()


@dataclass(slots=True)
class Provider:
    """A running `reconcile provider serve`."""

    url: str
    platform: Platform
    process: "subprocess.Popen[str]"
    log: Path

    def workers(self) -> list[int]:
        """Process ids of the workers, or of the only process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children] or [self.process.pid]

    def kill(self) -> None:
        """kill -9, workers first, so that none of them ends in good order."""
        for pid in [*self.workers(), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def serving_provider(
    postgres: Postgres,
    store: Path,
    *options: str,
    workers: int = 1,
    public_url: str = "",
    name: str = "databases",
) -> Iterator[Provider]:
    """The reference provider for the block. `options`: more of the command line."""
    log = store.with_name(f"{store.name}.log")
    command = [
        *(sys.executable, "-m", "reconciler", "provider", "serve", name),
        *("--postgres-from", "env:TEST_POSTGRES", "--db", str(store), "--workers", str(workers)),
        *("--signing-secret-from", "env:TEST_SIGNING"),
        *(("--public-url", public_url) if public_url else ()),
        *options,
    ]
    env = {
        **os.environ,
        "TEST_POSTGRES": postgres.url,
        "TEST_SIGNING": SIGNING_SECRET,
        "TEST_WEBHOOK": WEBHOOK_SECRET,
        "TEST_CLIENT": CLIENT_SECRET,
    }
    with (
        log.open("a") as errors,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), log.read_text()
        url = line.removeprefix("listening on ").strip()
        provider = Provider(url, Platform(public_url or url, url), process, log)
        try:
            yield provider
        finally:
            if process.poll() is None:
                provider.end()


@pytest.fixture(scope="session")
def provider(postgres: Postgres) -> Iterator[Provider]:
    """One provider with two workers, on a store of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_provider(postgres, Path(folder) / "provider.db", workers=2) as provider,
    ):
        yield provider


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
