"""A generic package registry as GitLab and Gitea have one: PUT, GET and DELETE of a file, by a credential."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers import in_a_thread


@dataclass
class Packages:
    """`files` by path. `replaces`: a file that is there can be sent again (GitLab), or is refused (Gitea)."""

    url: str
    header: str
    credential: str
    replaces: bool
    files: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def serving(header: str, credential: str, *, replaces: bool) -> Iterator[Packages]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _allowed(self) -> bool:
            if self.headers.get(header) == credential:
                return True
            self._answer(401)
            return False

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if not self._allowed():
                return
            if self.path in found.files and not replaces:
                self._answer(409)
                return
            found.files[self.path] = body
            self._answer(201)

        def do_GET(self) -> None:
            if self._allowed():
                body = found.files.get(self.path)
                self._answer(404) if body is None else self._answer(200, body)

        def do_DELETE(self) -> None:
            if self._allowed():
                self._answer(404 if found.files.pop(self.path, None) is None else 204)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        found = Packages(url, header, credential, replaces)
        yield found
