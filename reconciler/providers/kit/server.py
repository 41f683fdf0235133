"""A provider as processes: one socket, and workers that share it and the store.

The parent binds the socket, makes the store and starts the workers; a worker that dies is replaced. A worker
ends when its parent does: it reads from a pipe that only the parent holds open.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from starlette.applications import Starlette
from starlette.routing import Mount
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import HeadInTime, ending_signals

_END_S = 3

MakeApp = Callable[[], Starlette]


def serve(
    listener: socket.socket,
    make_app: MakeApp,
    prefix: str,
    workers: int,
    ready: Callable[[], None],
    proxies: Sequence[str] = (),
) -> int:
    """Serve until SIGTERM or SIGINT: the number of the signal. `prefix`: the path of the public address.

    `proxies`: addresses or networks whose X-Forwarded-For is believed.

    `ready` is called when calls are accepted. Must be called from the main thread, before other threads run.
    """
    if workers == 1:
        return _work(listener, make_app, prefix, ready, proxies)
    ending = ending_signals()
    watched = {*ending, signal.SIGCHLD}
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGCHLD, lambda *_: None)  # one that is ignored cannot be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    children = {_fork(listener, make_app, prefix, proxies, (reading, writing)) for _ in range(workers)}
    try:
        ready()
        while (number := signal.sigwait(watched)) not in ending:
            for code in _gone(children):
                if code > 0:
                    raise ReconcilerError("a worker ended unexpectedly, see above")
                # Killed: another takes its place, and continues its work.
                children.add(_fork(listener, make_app, prefix, proxies, (reading, writing)))
        return number
    finally:
        os.close(writing)
        os.close(reading)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        for child in children:
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        signal.signal(signal.SIGCHLD, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)


def _gone(children: set[int]) -> list[int]:
    """Exit codes of the children that ended, which leave the set; negative: by that signal."""
    codes = []
    for child in list(children):
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            children.remove(child)
            codes.append(os.waitstatus_to_exitcode(status))
    return codes


def _fork(
    listener: socket.socket, make_app: MakeApp, prefix: str, proxies: Sequence[str], pipe: tuple[int, int]
) -> int:
    """Start a worker. The watched signals are blocked: one must end it, not run handlers of the parent."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        watched = (*ending_signals(), signal.SIGCHLD)
        for number in watched:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        os.close(pipe[1])
        threading.Thread(target=_end_with_parent, args=(pipe[0],), daemon=True).start()
        _work(listener, make_app, prefix, lambda: None, proxies)
        code = 0
    except ReconcilerError as failure:
        os.write(2, f"error: {failure.message}\n".encode())
    except BaseException as failure:
        os.write(2, f"error: a worker failed: {type(failure).__name__}\n".encode())
    finally:
        os._exit(code)


def _end_with_parent(reading: int) -> None:
    os.read(reading, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _work(
    listener: socket.socket, make_app: MakeApp, prefix: str, ready: Callable[[], None], proxies: Sequence[str]
) -> int:
    """Serve in this process until a signal ends it: its number."""
    app = make_app()
    mounted = app
    if prefix:
        mounted = Starlette(routes=[Mount(prefix, app)], lifespan=lambda _: app.state.kit.running())
    config = Config(
        mounted,
        ws="none",
        http=_Connection,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=_END_S,
    )
    return asyncio.run(_until_a_signal(config, listener, ready))


async def _until_a_signal(config: Config, listener: socket.socket, ready: Callable[[], None]) -> int:
    """The signal's number. Raises ReconcilerError when it ends without one."""
    server = Server(config)
    ends: list[int] = []

    def end(number: int) -> None:
        ends.append(number)
        server.should_exit = True

    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    ready()  # the socket listens already
    await server.serve(sockets=[listener])
    if not ends:
        raise ReconcilerError("the provider could not start")
    return ends[0]


class _Connection(HeadInTime, H11Protocol):
    """A connection of uvicorn, whose heads come in time."""
