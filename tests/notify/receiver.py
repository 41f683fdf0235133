"""A receiver of webhooks as Standard Webhooks asks for one: it checks what it gets, by code of its own."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import in_a_thread

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass(frozen=True)
class Got:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed(self, secret: str = SECRET) -> bool:
        """As the specification says: over id, timestamp and body, any of the signatures."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{expected}" in self.headers.get("webhook-signature", "").split(" ")


@dataclass
class Receiver:
    """`answers`: statuses for the next requests; 200 afterwards."""

    url: str
    got: list[Got] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.got.append(Got(self.path, headers, body))
            status = found.answers.pop(0) if found.answers else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{found.url}/elsewhere")
            self.send_header("retry-after", "0")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        found = Receiver(url)
        yield found
