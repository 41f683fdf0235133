"""S3 by moto, one request at a time: `python moto_s3.py PORT BUCKET` serves it until it is killed.

moto compares the tag of a conditional write and then writes, and another thread may write in between: on a
busy machine it loses changes, as a store does that must be refused.
"""

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server


class _OneAtATime:
    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._turn:
            return list(self._app(environ, start_response))


@contextmanager
def serving(bucket: str, port: int = 0) -> Iterator[str]:
    """The URL of a new server with this bucket; `port` 0 is any that is free."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", port, _OneAtATime(), threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    urlopen(Request(f"{url}/{bucket}", method="PUT")).close()
    yield url
    server.shutdown()
    thread.join()


if __name__ == "__main__":
    with serving(sys.argv[2], int(sys.argv[1])):
        threading.Event().wait()
