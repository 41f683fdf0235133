"""Running the sandbox as a process: its socket, its lock, its signals and its end."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uvicorn import Config, Server

from reconciler.errors import ReconcilerError
from reconciler.sandbox.core import DEFAULT_TOKEN, Sandbox
from reconciler.sandbox.http import Connection, application
from reconciler.sandbox.lock import locked

_KEEP_ALIVE_S = 75
_LONGEST_NAP_S = 0.5
_SHORTEST_NAP_S = 0.01


def serve(
    *,
    db: Path | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    clock: str = "real",
    profile: str = "documented",
    token: str = DEFAULT_TOKEN,
    apps: Sequence[Mapping[str, Any]] = (),
    machines: Sequence[Mapping[str, Any]] = (),
    seed: Path | None = None,
    ready: Callable[[str], None],
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, or until stdin ends when `until_stdin_closes`.

    `ready` is called with the URL once connections are accepted. Raises ReconcilerError when
    the port is taken or another process serves `db`, ValueError for an unknown clock or profile.
    """
    with locked(db) as announce, _listening(host, port) as listener:
        sandbox = Sandbox(
            db=db, clock=clock, profile=profile, token=token, apps=apps, machines=machines, seed=seed
        )
        address, bound = listener.getsockname()[:2]
        url = f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"

        def accepting() -> None:
            announce(url)
            ready(url)

        try:
            asyncio.run(_serve(sandbox, listener, accepting, until_stdin_closes))
        finally:
            sandbox.close()


class _Server(Server):
    """Tells when it accepts, and leaves signals alone: uvicorn raises them again after a clean end."""

    def __init__(self, config: Config, accepting: Callable[[], None]) -> None:
        super().__init__(config)
        self._accepting = accepting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accepting()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    sandbox: Sandbox, listener: socket.socket, accepting: Callable[[], None], until_stdin_closes: bool
) -> None:
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
    server = _Server(config, accepting)

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    if until_stdin_closes:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    ticking = asyncio.create_task(_tick(sandbox))
    try:
        await server.serve(sockets=[listener])
    finally:
        ticking.cancel()


async def _tick(sandbox: Sandbox) -> None:
    """Let things happen when the clock passes them, though nobody asks."""
    while True:
        due, rate = sandbox.world.next_due, sandbox.clock.rate
        nap_s = (due - sandbox.clock.now()) / rate if due is not None and rate else _LONGEST_NAP_S
        await asyncio.sleep(min(max(nap_s, _SHORTEST_NAP_S), _LONGEST_NAP_S))
        sandbox.tick()


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` when the parent that holds the other end of stdin is gone.

    Reads the descriptor itself: a thread inside `sys.stdin` would hold its lock when the interpreter ends.
    """
    while os.read(0, 4096):
        continue
    with suppress(RuntimeError):  # the loop may be closed by now
        loop.call_soon_threadsafe(stop)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """The protocol is named because asyncio turns Nagle's delay off only where it is: else 40 ms a reply."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ReconcilerError(f"cannot listen on {host} port {port}: {error.strerror}") from error
        yield listener
