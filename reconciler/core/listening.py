"""What a process that serves HTTP needs: a socket, the signals that end it, and limits for callers."""

import asyncio
import signal
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reconciler.core.clock import Clock
from reconciler.core.errors import ReconcilerError

HEAD_S = 10.0  # for a request line and its headers
_MOST_HEAD = 64 * 1024  # bytes, and what comes with its end
_BACKLOG = 1024
_BURST_S = 2.0
_MOST_ADDRESSES = 1024


class Allowance:
    """Requests per second and address, as buckets that fill with time. The oldest addresses drop out."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, address: str) -> bool:
        """Whether a request of this address would be let through now."""
        return not self._rate or self._filled(address) >= 1

    def spend(self, address: str) -> bool:
        """Spend one request of the address; False when its allowance is used up."""
        if not self._rate:
            return True
        left, now = self._filled(address), self._clock.monotonic()
        self._buckets.pop(address, None)
        self._buckets[address] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return left >= 1

    def _filled(self, address: str) -> float:
        most, now = self._rate * _BURST_S, self._clock.monotonic()
        left, since = self._buckets.get(address, (most, now))
        return min(most, left + (now - since) * self._rate)


class HeadInTime(asyncio.Protocol):
    """Comes before uvicorn's protocol among the bases of a class: ends a connection without a whole head of
    a request in time. It would keep its place among the connections for ever.
    """

    cycle: Any  # of uvicorn: the newest request and its answer
    transport: asyncio.Transport
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
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


class ShortHead(asyncio.Protocol):
    """Comes before uvicorn's protocol over httptools, which takes heads of any length: at most 64 KiB."""

    transport: asyncio.Transport
    _head: int | None = None  # bytes of a head that has not ended

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is None or self.transport.is_closing():
            return
        self._head += len(data)
        if self._head > _MOST_HEAD:
            self.send_400_response("The request's head is too long.")  # type: ignore[attr-defined]  # uvicorn's

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()  # type: ignore[misc]  # uvicorn's

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()  # type: ignore[misc]  # uvicorn's


@contextmanager
def listening_at(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket and its URL. Raises ReconcilerError when the port is taken, or is none.

    The protocol is named because asyncio turns Nagle's delay off only where it is: else 40 ms a reply.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            raise ReconcilerError(
                f"cannot listen on {host} port {port}: {getattr(error, 'strerror', error)}",
                help="choose another port; 0 picks a free one",
            ) from error
        address, number = listener.getsockname()[:2]
        yield listener, f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}"


def ending_signals() -> list[signal.Signals]:
    """The signals that end the process: without HUP where `nohup` ignores it."""
    ending = [signal.SIGINT, signal.SIGTERM]
    return ending if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [*ending, signal.SIGHUP]
