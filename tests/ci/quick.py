"""A `reconcile` for scripts that starts at once: it hands its words to the test, which forks a warm one."""

import json
import os
import socket
import socketserver
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.warm import LARGEST_ORDER, run_between
from tests.servers import in_a_thread

_PATIENCE_S = 300  # only a bug uses it up
# -S and -E: nothing is imported that a socket does not need. What serves, or is one of a pipe, runs beside
# others: it starts cold.
_CALLER = """#!{python} -SE
import json, os, socket, stat, sys
if sys.argv[1:2] in (["sandbox"], ["provider"], ["controller"]) or stat.S_ISFIFO(os.fstat(0).st_mode):
    os.execv(sys.executable, [sys.executable, "-m", "reconciler", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect({address!r})
    socket.send_fds(line, [json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
    sys.exit(json.loads(line.recv(100)))
"""


class _Server(socketserver.UnixStreamServer):
    socket_type = socket.SOCK_SEQPACKET

    def __init__(self, address: str, python: Path) -> None:
        super().__init__(address, _Handler)
        self.python = python


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        order, streams, _, _ = socket.recv_fds(self.request, LARGEST_ORDER, 3)
        arguments, root, env = json.loads(order)
        python = self.server.python
        code = run_between(
            streams, arguments, root=Path(root), env=env, patience_s=_PATIENCE_S, python=python
        )
        for stream in streams:
            os.close(stream)
        self.request.sendall(json.dumps(code).encode())


@contextmanager
def installed(tools: Path, python: Path = Path(sys.executable)) -> Iterator[None]:
    """`reconcile` in the folder `tools`, for the block; the one that `python` has. One runs at a time."""
    tool, address = tools / "reconcile", tools / "quick.socket"
    with in_a_thread(_Server(str(address), python)):
        tool.write_text(_CALLER.format(python=python, address=str(address)))
        tool.chmod(0o755)
        yield
    address.unlink()
