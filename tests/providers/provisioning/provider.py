"""A small provider that really serves: it checks every signature, and does what a test tells it to."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reconciler.services.signing import HEADER, Encoding, NotAuthentic, Signed, verify
from tests.cli.harness import PATIENCE_S
from tests.servers import in_a_thread

SIGNING_SECRET = "a-signing-secret-3f7c1b9e"
SHOWN = ("id", "name", "status", "plan", "primary_region", "read_regions")


@dataclass
class FakeProvider:
    """What it has, what it was asked, and how it behaves.

    `requests`: method, path and signed fields of all that was authentic; `refused`: why others were not.
    `config`: what POST answers to all; `update_config`: what PATCH does (None: nothing).
    `keeps_orders`: whether another order under an id that it knows is answered 409.
    `late`: whether POST answers with an empty config and a status while the resource is not ready.
    `unready`: so many GETs of a new resource show `provisioning` first. `ends_as`: the status after them.
    `lose`: methods whose next answer is cut off after the effect. `drop`: before it. `hold`: methods whose
    answer waits until `release` is set. `answer`: status and body in place of the next answer to a method.
    `same_id`: whether the id is the one that was sent.
    """

    url: str = ""
    encoding: Encoding = "hex"
    config: dict[str, Any] = field(default_factory=dict)
    update_config: dict[str, Any] | None = None
    name: str | None = None
    app_name: str | None = None
    keeps_orders: bool = False
    late: bool = False
    unready: int = 0
    ends_as: str = "ready"
    same_id: bool = False
    hold: set[str] = field(default_factory=set)
    release: threading.Event = field(default_factory=threading.Event)
    lose: list[str] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    answer: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # by the id that was sent
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    nonces: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, *methods: str) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.requests if method in methods]

    def bodies(self, method: str) -> list[dict[str, Any]]:
        return [fields for made, _, fields in self.requests if made == method]

    def claim(self, nonce: str) -> bool:
        new = nonce not in self.nonces
        self.nonces.add(nonce)
        return new

    def handle(self, method: str, path: str, fields: dict[str, Any]) -> tuple[int, Any]:
        if path == "/costs":
            return 200, {"total": "12.50", "currency": "EUR", "token": "not-for-people-71c0"}
        id = path.removeprefix("/extensions/")
        if method == "POST" and path == "/extensions":
            order = {name: value for name, value in fields.items() if name not in ("nonce", "timestamp")}
            if self.keeps_orders and self.orders.setdefault(fields["id"], order) != order:
                return 409, {"error": "another order"}
            return 201, self._provision(fields)
        resource = self.resources.get(id)
        if resource is None:
            return 404, {"error": "not found"}
        if method == "PATCH":
            resource |= {name: fields[name] for name in SHOWN if name in fields and name != "id"}
            config = {} if self.update_config is None else {"config": self.update_config}
            return 200, {"id": id, **config}
        if method == "DELETE":
            del self.resources[id]
            return 204, None
        if resource["unready"] > 0:
            resource["unready"] -= 1
            return 200, {"id": id, "status": "provisioning"}
        # A provider may repeat the config in this answer.
        return 200, {**{name: resource[name] for name in SHOWN if name in resource}, "config": self.config}

    def _provision(self, fields: dict[str, Any]) -> dict[str, Any]:
        ours = fields["id"]
        if ours not in self.ids:
            id = ours if self.same_id else f"res_{len(self.ids) + 1}"
            self.ids[ours] = id
            shown = {name: fields[name] for name in SHOWN if name in fields}
            self.resources[id] = {
                **shown,
                "id": id,
                "plan": "small",
                "name": self.name or fields["name"],
                "unready": self.unready,
                "status": self.ends_as,
            }
        reply: dict[str, Any] = {"id": self.ids[ours], "config": self.config}
        if self.late and self.resources[self.ids[ours]]["unready"] > 0:
            reply |= {"config": {}, "status": "provisioning"}
        if self.name is not None:
            reply["name"] = self.name
        if self.app_name is not None:
            reply["platform_app_name"] = self.app_name
        return reply


def _handler(provider: FakeProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

        def _answered(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with provider.lock:
                status, content = self._judged(body)
            if self.command in provider.hold:
                provider.release.wait(PATIENCE_S)
            if status == 0:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _judged(self, body: bytes) -> tuple[int, bytes]:
            method, path = self.command, self.path.partition("?")[0]
            provider.headers.append(dict(self.headers.items()))
            signed = Signed(method, provider.url + self.path, self.headers.get_all(HEADER) or (), body)
            try:
                fields = verify(
                    signed,
                    [SIGNING_SECRET.encode()],
                    now=time.time(),
                    claim=provider.claim,
                    encoding=provider.encoding,
                )
            except NotAuthentic as refused:
                provider.refused.append(refused.why)
                return 401, b'{"error": "unauthorized"}'
            provider.requests.append((method, path, dict(fields)))
            if method in provider.drop:
                provider.drop.remove(method)
                return 0, b""
            if method in provider.answer:
                return provider.answer.pop(method)
            status, reply = provider.handle(method, path, dict(fields))
            if method in provider.lose:
                provider.lose.remove(method)
                return 0, b""
            return status, b"" if reply is None else json.dumps(reply).encode()

        do_GET = do_POST = do_PATCH = do_DELETE = _answered  # noqa: N815 (names that the server looks for)

    return Handler


@contextmanager
def serving_provider(**behaviour: Any) -> Iterator[FakeProvider]:
    """A provider on loopback for the block."""
    provider = FakeProvider(**behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(provider))
    server.daemon_threads = True
    with in_a_thread(server) as provider.url:
        yield provider
