"""A `reconcile` for scripts that starts at once: it hands its words to the test, which forks a warm one."""

import json
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.warm import LARGEST_ORDER, run_between

_PATIENCE_S = 300  # only a bug uses it up
# -S and -E: nothing is imported that a socket does not need. What serves, or is one of a pipe, runs beside
# others: it starts cold.
_CALLER = """#!{python} -SE
import json, os, socket, stat, sys
if sys.argv[1:2] in (["sandbox"], ["provider"]) or stat.S_ISFIFO(os.fstat(0).st_mode):
    os.execv(sys.executable, [sys.executable, "-m", "reconciler", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect({address!r})
    socket.send_fds(line, [json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(json.loads(line.recv(100)))
"""


class _Server(socketserver.UnixStreamServer):
    socket_type = socket.SOCK_SEQPACKET


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        order, streams, _, _ = socket.recv_fds(self.request, LARGEST_ORDER, 3)
        arguments, root, env = json.loads(order)
        code = run_between(streams, arguments, root=Path(root), env=env, patience_s=_PATIENCE_S)
        for stream in streams:
            os.close(stream)
        self.request.sendall(json.dumps(code).encode())


@contextmanager
def installed(tools: Path) -> Iterator[None]:
    """`reconcile` in the folder `tools`, for the block. One runs at a time."""
    tool, address = tools / "reconcile", str(tools / "quick.socket")
    with _Server(address, _Handler) as server:
        tool.write_text(_CALLER.format(python=sys.executable, address=address))
        tool.chmod(0o755)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()
    Path(address).unlink()
