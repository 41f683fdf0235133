"""A `reconcile` for scripts that starts at once: it hands its words to the test, which forks a warm one."""

import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.warm import run_warm

_PATIENCE_S = 300  # only a bug uses it up
# -S and -E: nothing is imported that a socket does not need.
_CALLER = """#!{python} -SE
import json, os, socket, sys
with socket.create_connection(("127.0.0.1", {port})) as line:
    line.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    code, out, err = json.loads(line.makefile().read())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


@contextmanager
def installed(tools: Path) -> Iterator[None]:
    """`reconcile` in the folder `tools`, for the block. One runs at a time."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            arguments, root, env = json.loads(self.rfile.readline())
            ended = run_warm(arguments, root=Path(root), env=env, patience_s=_PATIENCE_S)
            self.wfile.write(json.dumps(ended).encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        tool = tools / "reconcile"
        tool.write_text(_CALLER.format(python=sys.executable, port=server.server_address[1]))
        tool.chmod(0o755)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()
