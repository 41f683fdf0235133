"""A provider as processes: one socket, and workers that share it and the store.

The parent binds the socket, makes the store and starts the workers; a worker that dies is replaced. A worker
ends when its parent does: it reads from a pipe that only the parent holds open.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.core.errors import ReconcilerError
from reconciler.core.listening import ending_signals

_END_S = 3
HEAD_S = 10.0  # for a request line and its headers

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
    reading, writing = os.pipe()
    with _signals() as (ends, wait):
        children = {_fork(listener, make_app, prefix, proxies, (reading, writing)) for _ in range(workers)}
        try:
            ready()
            while not ends:
                wait()
                for code in _gone(children):
                    if code > 0:
                        raise ReconcilerError("a worker ended unexpectedly, see above")
                    if not ends:  # killed: another takes its place, and continues its work
                        children.add(_fork(listener, make_app, prefix, proxies, (reading, writing)))
        finally:
            os.close(writing)
            os.close(reading)
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
            for child in children:
                with suppress(ChildProcessError):
                    os.waitpid(child, 0)
        return ends[0]


@contextmanager
def _signals() -> Iterator[tuple[list[int], Callable[[], object]]]:
    """The ending signals so far, and a function that waits for a signal or the end of a child."""
    ends: list[int] = []
    awake, wake = socket.socketpair()
    with awake, wake:
        wake.setblocking(False)
        before: dict[int, Any] = {
            number: signal.signal(number, lambda got, _: ends.append(got)) for number in ending_signals()
        }
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            yield ends, partial(awake.recv, 4096)
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)


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
    # A signal between the fork and the worker's own handlers must end it, not run the parent's.
    ending = ending_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
        return child
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (*ending, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
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
    return asyncio.run(_Server(config, ready).until_a_signal(listener))


class _Connection(H11Protocol):
    """Ends a connection without a whole head of a request in time: connections cost file descriptors."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait_for_a_head()

    def data_received(self, data: bytes) -> None:
        if self._due is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_a_head()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_a_head(self) -> None:
        self._due = asyncio.get_running_loop().call_later(HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class _Server(Server):
    """Calls `ready` when it accepts, and ends at the first signal, which uvicorn would raise again."""

    def __init__(self, config: Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._number = 0

    async def until_a_signal(self, listener: socket.socket) -> int:
        """The signal's number. Raises ReconcilerError when it ends without one."""
        loop = asyncio.get_running_loop()
        for number in ending_signals():
            loop.add_signal_handler(number, self._end, number)
        await self.serve(sockets=[listener])
        if not self._number:
            raise ReconcilerError("the provider could not start")
        return self._number

    def _end(self, number: int) -> None:
        self._number = self._number or number
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
