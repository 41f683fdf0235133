"""Running the sandbox as a process: its socket, its lock, its signals and its end."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uvicorn import Config, Server

from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import ending_signals, listening_at
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.courier import Courier
from reconciler.sandbox.database import require_own
from reconciler.sandbox.http import Connection, application, nap_s
from reconciler.sandbox.lock import locked

_KEEP_ALIVE_S = 75


def serve(
    *,
    db: Path | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    clock: str = "real",
    machine_socket: Path | None = None,
    ready: Callable[[str], None],
    until_stdin_closes: bool = False,
    **options: Any,
) -> None:
    """Serve until SIGTERM or SIGINT, or until stdin ends when `until_stdin_closes`.

    `ready` is called with the URL once connections are accepted. At `machine_socket` a Unix socket
    takes the suspend of a machine by itself, without a token. `options` are further ones of `Sandbox`.
    Raises ReconcilerError when the port or socket is taken or another process serves `db`,
    ValueError for an unknown clock or profile.
    """
    if db is not None:
        require_own(db)  # before the lock next to it is written
    with (
        locked(db) as announce,
        listening_at(host, port) as (listener, url),
        _local(machine_socket) as local,
    ):
        sandbox = Sandbox(db=db, clock=clock, **options)

        def accepting() -> None:
            announce(url)
            ready(url)

        ends = _until_the_end(sandbox, _server(sandbox), [listener, *local], accepting, until_stdin_closes)
        try:
            asyncio.run(ends)
        finally:
            sandbox.close()


@contextmanager
def serving(*, clock: str = "real", **options: Any) -> Iterator[str]:
    """Serve for the block on a thread of its own, on a free port: the URL.

    `options` are further ones of `Sandbox`.
    """
    with listening_at("127.0.0.1", 0) as (listener, url):
        sandbox = Sandbox(clock=clock, **options)
        server = _server(sandbox)
        ends = _until_the_end(sandbox, server, [listener])
        running = threading.Thread(target=asyncio.run, args=(ends,), daemon=True)
        running.start()
        try:
            yield url
        finally:
            server.should_exit = True
            running.join()
            sandbox.close()


def _server(sandbox: Sandbox) -> Server:
    config = Config(
        application(sandbox),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
    return Server(config)


async def _until_the_end(
    sandbox: Sandbox,
    server: Server,
    listeners: list[socket.socket],
    accepting: Callable[[], None] = lambda: None,
    until_stdin_closes: bool = False,
) -> None:
    """`accepting` is called when everything is ready to serve: the sockets listen already."""

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in ending_signals():
            loop.add_signal_handler(number, stop)
    if until_stdin_closes:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    tasks = [asyncio.create_task(_tick(sandbox)), asyncio.create_task(Courier(sandbox).run())]
    try:
        accepting()
        await server.serve(sockets=listeners)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _tick(sandbox: Sandbox) -> None:
    """End states when the clock passes them, even without requests."""
    while True:
        await asyncio.sleep(nap_s(sandbox))
        sandbox.tick()


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when the parent that holds the other end of stdin is gone.

    Reads the descriptor itself: a thread inside `sys.stdin` would hold its lock when the interpreter ends.
    """
    while os.read(0, 4096):
        continue
    with suppress(RuntimeError):  # the loop may be closed already
        loop.call_soon_threadsafe(stop)


@contextmanager
def _local(path: Path | None) -> Iterator[list[socket.socket]]:
    """The Unix socket, if there is a path for one. The leftover of a killed process is replaced."""
    if path is None:
        yield []
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        if path.is_socket() and probe.connect_ex(str(path)) == errno.ECONNREFUSED:
            path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(path))
            listener.listen()
        except OSError as error:
            raise ReconcilerError(f"cannot listen at {path}: {error.strerror or error}") from error
        try:
            yield [listener]
        finally:
            path.unlink(missing_ok=True)
