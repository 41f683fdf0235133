"""What a process that serves HTTP needs: a listening socket, and the signals that end it."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.core.errors import ReconcilerError

_BACKLOG = 1024


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
                help="choose another port with --port; 0 picks a free one",
            ) from error
        address, number = listener.getsockname()[:2]
        yield listener, f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}"


def ending_signals() -> list[signal.Signals]:
    """The signals that end the process: without HUP where `nohup` ignores it."""
    ending = [signal.SIGINT, signal.SIGTERM]
    return ending if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [*ending, signal.SIGHUP]
