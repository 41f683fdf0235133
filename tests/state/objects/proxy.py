"""An HTTP proxy before an object store: it loses requests and answers, refuses, and takes its time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

HttpFault = Literal[
    "",
    "answer lost",
    "request lost",
    "503",
    "503 after it landed",
    "slow",
    "AccessDenied",
    "InvalidAccessKeyId",
    "ExpiredToken",
    "RequestTimeTooSkewed",
    "PermanentRedirect",
]
# The status that stores give with these codes.
STATUSES = {
    "AccessDenied": 403,
    "InvalidAccessKeyId": 403,
    "ExpiredToken": 400,
    "RequestTimeTooSkewed": 403,
    "PermanentRedirect": 301,
}
Choose = Callable[[str, str], HttpFault]  # method, path with query


class Proxy(ThreadingHTTPServer):
    """`choose` says what becomes of each request. `seen`: methods and paths. `go_on` ends what is "slow"."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.choose: Choose = lambda method, path: ""
        self.seen: list[tuple[str, str]] = []
        self.go_on = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # head and body in one packet
    server: Proxy

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path))
        fault = self.server.choose(self.command, self.path)
        if fault == "slow":
            self.server.go_on.wait(30)
        if fault in ("request lost", "503"):
            self._fail(fault)
            return
        if fault in STATUSES:
            self._refuse(fault)
            return
        connection = HTTPConnection(self.server.target)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if fault in ("answer lost", "503 after it landed"):
            self._fail(fault)
        else:
            self._answer(answer, content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = relay  # noqa: N815

    def _fail(self, fault: str) -> None:
        self.close_connection = True
        if fault.startswith("503"):
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _refuse(self, code: str) -> None:
        content = f"<Error><Code>{code}</Code></Error>".encode()
        self.send_response(STATUSES[code])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, answer: HTTPResponse, content: bytes) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def proxying(target: str) -> Iterator[Proxy]:
    proxy = Proxy(target)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    yield proxy
    proxy.go_on.set()
    proxy.shutdown()
    proxy.server_close()
    thread.join()
