"""A line to the server that a test can cut, where it wants, in both directions."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

_READY = b"Z\x00\x00\x00\x05"  # ReadyForQuery: the server's answer is complete


class Fate(Enum):
    """What becomes of what a client sends. Of all but PASS, the connection ends for the client."""

    PASS = auto()
    LOST = auto()  # it does not arrive
    UNANSWERED = auto()  # it arrives, and its answer does not
    HALF = auto()  # half of it arrives, and until `late` is set the server sees an open connection
    LATE = auto()  # it arrives when `late` is set, and until then the server sees an open connection


@dataclass
class Proxy:
    """`fate` decides for each piece of what clients send. `connections`: how many there were."""

    port: int = 0
    fate: Callable[[bytes], Fate] = lambda sent: Fate.PASS
    connections: int = 0
    late: threading.Event = field(default_factory=threading.Event)
    reconnected: threading.Event = field(default_factory=threading.Event)  # after what is LATE

    def once(self, fate: Fate, marker: bytes) -> None:
        """The first piece with `marker` in it has this fate."""

        def decide(sent: bytes) -> Fate:
            if marker not in sent:
                return Fate.PASS
            self.fate = lambda sent: Fate.PASS
            return fate

        self.fate = decide


@contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy to the server of `url`, and the URL that leads through it."""
    before, _, rest = url.rpartition("@")
    address, _, database = rest.partition("/")
    host, _, port = address.partition(":")
    proxy, ends = Proxy(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        proxy.port = listener.getsockname()[1]
        threads: list[threading.Thread] = []

        def accept() -> None:
            while not ends.is_set():
                try:
                    client, _ = listener.accept()
                except TimeoutError:
                    continue
                proxy.connections += 1
                if proxy.connections > 1:
                    proxy.reconnected.set()
                server = socket.create_connection((host, int(port)))
                threads.append(threading.Thread(target=_carry, args=(proxy, client, server, ends)))
                threads[-1].start()

        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield proxy, f"{before}@127.0.0.1:{proxy.port}/{database}"
        finally:
            ends.set()
            proxy.late.set()
            for thread in threads:
                thread.join()


def _carry(proxy: Proxy, client: socket.socket, server: socket.socket, ends: threading.Event) -> None:
    with closing(client), closing(server):
        while not ends.is_set():
            readable, _, _ = select.select([client, server], [], [], 0.05)
            try:
                for source in readable:
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is server:
                        client.sendall(data)
                        continue
                    fate = proxy.fate(data)
                    if fate is Fate.LOST:
                        return
                    if fate is Fate.HALF:
                        server.sendall(data[: len(data) // 2])
                    if fate in (Fate.HALF, Fate.LATE):
                        client.close()
                        proxy.late.wait()
                    if fate is Fate.HALF:
                        return
                    server.sendall(data)
                    if fate is not Fate.PASS:
                        _wait_for_answer(server)
                        return
            except OSError:
                return


def _wait_for_answer(server: socket.socket) -> None:
    answer = b""
    while _READY not in answer:
        data = server.recv(1 << 16)
        if not data:
            return
        answer += data
