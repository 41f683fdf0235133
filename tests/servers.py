"""Servers of the standard library, in threads of this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from socketserver import BaseServer

_POLL_S = 0.01  # how long `shutdown` waits: by default it is half a second


@contextmanager
def in_a_thread(server: BaseServer) -> Iterator[str]:
    """Serve for the block. Gives the address of one that speaks HTTP."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}" if isinstance(server, ThreadingHTTPServer) else ""
        finally:
            server.shutdown()
            thread.join()
