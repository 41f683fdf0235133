"""A platform that costs next to nothing: every answer is built beforehand, and calls are counted.

    python -m bench.platform WORLD DELAY_S    serves the world's answers until it is terminated

Each answer comes DELAY_S after its request, however many are on their way. The first line on stdout is
`listening on URL`. `GET /calls` answers how many calls came since it was last asked, without counting itself.
"""

import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime

from bench.worlds.answers import answers
from bench.worlds.world import World

_CALLS = b"/calls"


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


async def _serve(world: World, delay_s: float) -> None:
    replies = {path.encode(): _reply(200, body) for path, body in answers(world)}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(replies, delay_s), "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(World.loads(sys.argv[1]), float(sys.argv[2])))
