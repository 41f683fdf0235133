"""A line to the store that can be cut: then nothing passes, and no connection ends.

What was under way when it was cut arrives once it is mended, however late that is.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

_CHUNK = 1 << 16


class Cable:
    """`port`: where it is reached on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._whole = threading.Event()
        self._whole.set()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        """All that comes from `source`, until it ends."""
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._whole.wait()
                target.sendall(data)
        self._whole.wait()  # not even the end of a connection passes
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def laid(server: tuple[str, int]) -> Iterator[Cable]:
    """A whole line to `server` for the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        cable = Cable(listener.getsockname()[1])
        thread = threading.Thread(target=_accept, args=(cable, listener, server), daemon=True)
        thread.start()
        try:
            yield cable
        finally:
            cable.mend()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(cable: Cable, listener: socket.socket, server: tuple[str, int]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_connect, args=(cable, client, server), daemon=True).start()


def _connect(cable: Cable, client: socket.socket, server: tuple[str, int]) -> None:
    with closing(client), suppress(OSError):
        cable._whole.wait()
        with socket.create_connection(server) as upstream:
            back = threading.Thread(target=cable.carry, args=(upstream, client), daemon=True)
            back.start()
            cable.carry(client, upstream)
            back.join()
