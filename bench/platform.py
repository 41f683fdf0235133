"""A platform that costs next to nothing: every answer is built beforehand, and calls are counted.

    python -m bench.platform WORLD LINK    serves the world's answers until it is terminated

The first line on stdout is `listening on URL`. `GET /calls` answers how many calls came since it was last
asked, without counting itself.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from pathlib import Path

from bench.worlds.answers import answers
from bench.worlds.world import World

_CALLS = b"/calls"


@dataclass(frozen=True)
class Link:
    """What lies between a command and the platform.

    `delay_s`: each answer comes as long after its request, however many are on their way. `round_trip_s`: of
    the network, for the handshakes of TCP and TLS as for requests. `certificate`: the folder of `server.pem`
    and `server.key`; "": plain http.
    """

    delay_s: float = 0.0
    round_trip_s: float = 0.0
    certificate: str = ""

    def dumps(self) -> str:
        return json.dumps(asdict(self))


class _Connection(asyncio.Protocol):
    """GETs without a body, pipelined or not."""

    calls = 0  # of all connections

    def __init__(self, replies: Mapping[bytes, bytes], delay_s: float) -> None:
        self._replies = replies
        self._delay_s = delay_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self._received = (self._received + data).split(b"\r\n\r\n")
        for request in requests:
            reply = self._reply(request.split(b" ", 2)[1])
            if self._delay_s:
                asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, reply)
            else:
                self._transport.write(reply)

    def _reply(self, path: bytes) -> bytes:
        if path == _CALLS:
            calls, _Connection.calls = _Connection.calls, 0
            return _reply(200, b"%d" % calls)
        _Connection.calls += 1
        return self._replies.get(path) or _reply(404, b'{"error": "not found"}')


def _reply(status: int, body: bytes) -> bytes:
    date = format_datetime(datetime.now(UTC), usegmt=True)
    head = (
        f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ndate: {date}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _serve(world: World, link: Link) -> None:
    replies = {path.encode(): _reply(200, body) for path, body in answers(world)}
    tls = None
    if link.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        folder = Path(link.certificate)
        tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    loop = asyncio.get_running_loop()
    near = await loop.create_server(lambda: _Connection(replies, link.delay_s), "127.0.0.1", ssl=tls)
    front = near
    if link.round_trip_s:
        relay = partial(_relay, near.sockets[0].getsockname()[1], link.round_trip_s)
        front = await asyncio.start_server(relay, "127.0.0.1", 0)
    origin = "https://localhost" if tls else "http://127.0.0.1"
    print(f"listening on {origin}:{front.sockets[0].getsockname()[1]}", flush=True)
    await front.serve_forever()  # and `near` serves since it was made


async def _relay(
    port: int, round_trip_s: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carry one connection to the server at `port` and back, each way half a round trip later."""
    await asyncio.sleep(round_trip_s)  # the handshake of TCP
    answers, requests = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(
        _carry(reader, requests, round_trip_s / 2), _carry(answers, writer, round_trip_s / 2)
    )


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, late_s: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await source.read(2**16):
        loop.call_later(late_s, sink.write, data)
    loop.call_later(late_s, sink.close)


if __name__ == "__main__":
    asyncio.run(_serve(World.loads(sys.argv[1]), Link(**json.loads(sys.argv[2]))))
