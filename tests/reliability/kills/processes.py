"""Processes made by fork from one that has everything imported: a case is a dozen of them.

Each is a process of its own, with its own locks, connections and signals; what it does not pay again
is the start of the interpreter and the imports, 0.2 to 0.4 s each.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.harness import Ran, Sandbox
from tests.forking import become, finish

PATIENCE_S = 25  # for a process that should end by itself: 10 s of grace after a signal, and a busy machine


def run_forked(work: Callable[[], None], *, root: Path, env: Mapping[str, str], name: str) -> Ran | None:
    """Run `work` in `root` with exactly `env`. Its output is in `<name>.out` and `<name>.err` beside it.

    None when it did not end, and had to be killed.
    """
    out, err = root.with_name(f"{name}.out"), root.with_name(f"{name}.err")
    ends, held = os.pipe()  # the pipe closes with the process
    pid = os.fork()
    if not pid:
        try:
            become(root, env, os.open(os.devnull, os.O_RDONLY), _created(out), _created(err), keep=held)
            finish(work)
        finally:
            os._exit(70)  # nothing of the parent's may run here
    os.close(held)
    hung = True
    try:
        hung = not select.select([ends], [], [], PATIENCE_S)[0]
    finally:
        os.close(ends)
        if hung:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if hung:
        return None
    code = os.waitstatus_to_exitcode(status)
    return Ran(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@contextmanager
def sandboxed(db: Path, clock: str, profile: str) -> Iterator[Sandbox]:
    """A sandbox process over `db`, killed at the end of the block. It ends by itself with its parent."""
    told, tell = os.pipe()
    stdin, alive = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            become(db.parent, dict(os.environ), stdin, tell, _created(db.with_name("sandbox.err")))
            finish(lambda: _serve(db, clock, profile))
        finally:
            os._exit(70)
    os.close(stdin)
    os.close(tell)
    try:
        with os.fdopen(told) as lines:
            url = lines.readline().strip()
        assert url, "the sandbox did not start"
        sandbox = Sandbox(url)
        try:
            yield sandbox
        finally:
            sandbox.close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(alive)


def _serve(db: Path, clock: str, profile: str) -> None:
    from reconciler.sandbox import serve

    def ready(url: str) -> None:
        os.write(1, f"{url}\n".encode())

    serve(db=db, clock=clock, profile=profile, ready=ready, until_stdin_closes=True)


def _created(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
