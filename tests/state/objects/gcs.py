"""A double of the part of Google Cloud Storage's XML API that obstore speaks: whole objects, and generations.

The public fakes refuse its writes. This one says nothing about the real service.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


def variables(url: str) -> dict[str, str]:
    """What a shell would have for the double at `url`."""
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": ""}
    key = json.dumps(account | {"private_key_id": ""})
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": key, "GOOGLE_ALLOW_HTTP": "true"}


class Gcs(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[bytes, int]] = {}  # by bucket and key: body, generation
        self.generation = 1000
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # head and body in one packet
    server: Gcs

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).lstrip("/")
        if "/" not in path:
            self._list(path, {name: values[0] for name, values in parse_qs(parts.query).items()})
        elif path in self.server.objects:
            body, generation = self.server.objects[path]
            self._answer(200, body, _headers(body, generation))
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_PUT(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wanted = self.headers.get("x-goog-if-generation-match")
        with self.server.lock:
            _, current = self.server.objects.get(path, (b"", 0))
            if wanted is not None and int(wanted) != current:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self.server.generation += 1
            self.server.objects[path] = body, self.server.generation
            self._answer(200, b"", _headers(body, self.server.generation))

    def do_DELETE(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        found = self.server.objects.pop(path, None)
        self._answer(204 if found else 404, b"")

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        keys = sorted(path.partition("/")[2] for path in self.server.objects if path.startswith(f"{bucket}/"))
        text = ""
        for key in keys:
            if key.startswith(prefix) and not (delimiter and delimiter in key[len(prefix) :]):
                body, _ = self.server.objects[f"{bucket}/{key}"]
                text += (
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>{_etag(body)}</ETag>"
                    "<LastModified>2030-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        self._answer(
            200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>".encode()
        )

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _headers(body: bytes, generation: int) -> dict[str, str]:
    return {
        "ETag": _etag(body),
        "x-goog-generation": str(generation),
        "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT",
    }


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a new one."""
    server = Gcs()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
