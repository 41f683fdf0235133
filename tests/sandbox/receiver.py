"""A provider over real HTTP that takes whatever comes and remembers it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers import in_a_thread

PATIENCE_S = 30


@dataclass(frozen=True)
class Received:
    """Header names are in lower case."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`statuses`: of the next answers, 202 when there are none left; 0 closes the connection instead."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    answer: bytes = b'{"total": "1.50"}'
    received: list[Received] = field(default_factory=list)
    came: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, count: int) -> list[Received]:
        """All that came, once there are `count` of them."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.received) >= count, PATIENCE_S), self.received
            return list(self.received)


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with receiver.came:
                url = f"http://{self.headers['host']}{self.path}"
                receiver.received.append(Received(self.command, url, headers, body))
                status = receiver.statuses.pop(0) if receiver.statuses else 202
                receiver.came.notify_all()
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        do_GET = do_POST = _take  # noqa: N815 - as http.server names them

        def log_message(self, format: str, *args: object) -> None:
            pass

    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", port), Handler)) as receiver.url:
        yield receiver
