"""`reconcile` in processes forked from a warm one: a short verb spends most of its time on imports.

Each run is a process of its own. Verbs also start cold: in the tour of the README, and wherever a test
does something while a verb runs.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.forking import become, finish, import_everything

LARGEST_ORDER = 1 << 17  # bytes: arguments and environment
# This folder comes last: an environment with a package of its own runs that one.
_START = f"""
import runpy, sys
sys.path.append({str(Path(__file__).parents[2])!r})
runpy.run_module("tests.cli.warm", run_name="__main__")
"""


def run_warm(
    arguments: Sequence[str],
    *,
    root: Path,
    env: Mapping[str, str],
    stdin: str = "",
    patience_s: float,
    module: str = "reconciler.cli.main",
) -> tuple[int, str, str]:
    """Exit code (negative: by that signal), stdout and stderr of a verb run to its end in `root`.

    `module`: whose `main` is run.
    Raises TimeoutError, when it has been killed, for one that did not end within `patience_s`.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        streams = (given.fileno(), out.fileno(), err.fileno())
        code = run_between(streams, arguments, root=root, env=env, patience_s=patience_s, module=module)
        out.seek(0)
        err.seek(0)
        return code, out.read().decode(), err.read().decode()


def run_between(
    streams: Sequence[int],
    arguments: Sequence[str],
    *,
    root: Path,
    env: Mapping[str, str],
    patience_s: float,
    module: str = "reconciler.cli.main",
    python: Path = Path(sys.executable),
) -> int:
    """Exit code of a verb run to its end, as `run_warm`, on open descriptors of stdin, stdout and stderr.

    `python`: whose installed package is run.
    """
    order = {"module": module, "arguments": arguments, "root": str(root), "env": dict(env)}
    parent = _parent(os.getpid(), python)
    socket.send_fds(parent, [json.dumps(order).encode()], streams)
    pid = json.loads(parent.recv(LARGEST_ORDER))
    parent.settimeout(patience_s)
    try:
        code: int = json.loads(parent.recv(LARGEST_ORDER))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        parent.settimeout(None)
        parent.recv(LARGEST_ORDER)
        raise
    finally:
        parent.settimeout(None)
    return code


@cache
def _parent(owner: int, python: Path) -> socket.socket:
    """The connection to the warm process of process `owner`: forked ones must not share it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [python, "-Pc", _START, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    atexit.register(process.wait)  # after what is registered next
    atexit.register(process.kill)
    atexit.register(ours.close)
    return ours


def _serve(orders: socket.socket) -> None:
    """Run verbs, one after the other, until the other end is closed."""
    while True:
        order, streams, _, _ = socket.recv_fds(orders, LARGEST_ORDER, 3)
        if not order:
            return
        pid = os.fork()
        if not pid:
            try:
                _run(json.loads(order), streams)
            finally:
                os._exit(70)  # nothing of the parent's may run here
        for stream in streams:
            os.close(stream)
        orders.send(json.dumps(pid).encode())
        _, status = os.waitpid(pid, 0)
        orders.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _run(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    stdin, out, err = streams
    become(Path(order["root"]), order["env"], stdin, out, err)
    sys.argv = ["reconcile", *order["arguments"]]
    finish(import_module(order["module"]).main)


if __name__ == "__main__":
    import_everything()
    _serve(socket.socket(fileno=int(sys.argv[1])))
