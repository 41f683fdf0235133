"""Hostile answers on kept connections: none is taken for the answer to another request.

Each seed sends reads and mutations of ids of their own, one after another, over one connection as long as the
client keeps it. The server answers with what is not quite an answer, and mostly with the complete answer of
another id behind it. Half of the seeds go through the tunnel of a proxy.

The client and the server take turns on one event loop. So what the server sends is there before the next
request, and no test depends on time.
"""

import asyncio
import json
import os
import re
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from anyio.lowlevel import checkpoint

from reconciler.core.errors import Lost
from reconciler.services.transport import Answer, HttpTransport
from tests.certificates import certified

REQUESTS = 10  # of a seed, each with a hostile answer
_NOT = "not "  # before the id of a request: an object that nobody asked for, behind its answer
_HOST = "platform.example"
PATIENCE_S = 60.0
_TURNS = 20  # of the event loop, until the client has seen what the server does

_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Hostile:
    """What the server sends for one request. `own` comes in pieces, the last of them with all of `behind`.

    `late`: sent when the client has its answer, before the next request. `body`: the only one that the client
    may take; None: it may take none. `any_body`: it may take another one, or none, but not another request's.
    """

    kind: str
    own: bytes
    behind: bytes = b""
    late: bytes = b""
    body: bytes | None = None
    any_body: bool = False
    closes: bool = False
    is_cancelled: bool = False


@dataclass(slots=True)
class Ground:
    """`scripts`: what is sent, by the id in the path of a request. `arrived`: how often each id came."""

    tls: ssl.SSLContext
    environment: dict[str, str]
    url: str
    servers: list[asyncio.Server]
    counts: Counter[str] = field(default_factory=Counter)
    scripts: dict[str, tuple[Hostile, Random]] = field(default_factory=dict)
    arrived: Counter[str] = field(default_factory=Counter)
    writers: dict[str, asyncio.StreamWriter] = field(default_factory=dict)
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def close(self) -> None:
        for server in self.servers:
            server.close()
        await _turns()  # the connections of the newest seed end

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"CONNECT"):
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await writer.start_tls(self.tls)
                    continue
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                await self._answer(head.split(b" ")[1].rpartition(b"/")[2].decode(), writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, id: str, writer: asyncio.StreamWriter) -> None:
        self.arrived[id] += 1
        self.writers[id] = writer
        script, rng = self.scripts[id]
        *first, last = _pieces(script, rng)
        for piece in first:
            writer.write(piece)
            self.has_begun.set()
            await checkpoint()
        if script.is_cancelled:
            await _turns()
        writer.write(last + script.behind)
        if script.closes:
            writer.close()


async def prepare(folder: Path) -> Ground:
    authority, tls = certified(_HOST, folder / "tls")
    ground = Ground(tls, {}, "", [])
    server = await asyncio.start_server(ground.serve, "127.0.0.1", 0)
    ground.servers.append(server)
    ground.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    ground.environment = {"https_proxy": ground.url, "no_proxy": "", "SSL_CERT_FILE": str(authority)}
    return ground


async def check_seed(ground: Ground, seed: int) -> list[str]:
    rng = Random(f"answers {seed}")
    is_proxied = rng.random() < 0.5
    ids = [f"{rng.getrandbits(64):016x}" for _ in range(REQUESTS + 1)]
    scripts = [_hostile(rng, id) for id in ids[:-1]]
    scripts.append(Hostile("right", _with_length(_body(ids[-1])), body=_body(ids[-1])))
    ground.scripts = {id: (script, rng) for id, script in zip(ids, scripts, strict=True)}
    ground.arrived.clear()
    url = f"https://{_HOST}" if is_proxied else ground.url
    with patch.dict(os.environ, ground.environment):
        transport = HttpTransport(url, connections=1)
        problems = []
        for number, id in enumerate(ids):
            method, body = ("POST", b'{"name":"x"}') if number % 2 else ("GET", None)
            problem = await _ask(ground, transport, method, f"{url}/v1/objects/{id}", body, id)
            problems += [f"{ground.scripts[id][0].kind}, request {number}: {problem}"] if problem else []
        await transport.aclose()
    ground.counts["through a proxy" if is_proxied else "directly"] += 1
    return problems


def keep(ground: Ground, seed: int) -> bytes:
    """Nothing: the seed says all."""
    return b""


async def _ask(
    ground: Ground, transport: HttpTransport, method: str, url: str, body: bytes | None, id: str
) -> str:
    """What is wrong with the outcome of one request; "" if nothing is."""
    script = ground.scripts[id][0]
    ground.counts[f"answers, {script.kind}"] += 1
    ground.counts["hostile answers"] += script.kind != "right"
    ground.has_begun.clear()
    asking = asyncio.ensure_future(
        transport.request(method, url, headers={}, body=body, deadline_s=PATIENCE_S)
    )
    if script.is_cancelled:
        asking.add_done_callback(lambda _: ground.has_begun.set())
        await ground.has_begun.wait()
        asking.cancel()
    outcome: Answer | BaseException
    (outcome,) = await asyncio.gather(asking, return_exceptions=True)
    writer = ground.writers.get(id)
    if script.late and writer is not None and not writer.is_closing():
        writer.write(script.late)
    if script.is_cancelled:
        await _turns()
    if ground.arrived[id] != 1:
        return f"it was sent {ground.arrived[id]} times"
    return _judged(ground, script, outcome, id)


def _judged(ground: Ground, script: Hostile, outcome: Answer | BaseException, id: str) -> str:
    if isinstance(outcome, Answer):
        of = _id_in(outcome.body)
        # Noise may make one answer of all that was sent for this request. That is not another request's.
        is_own = of == id or (script.any_body and of == _NOT + id)
        if not is_own and isinstance(of, str) and of.removeprefix(_NOT) in ground.scripts:
            return f"the answer of {of} was taken for it"
        is_right = script.any_body or outcome.body == script.body
        return "" if is_right else f"it was answered with {outcome.body!r}"
    if isinstance(outcome, Lost):
        is_right = script.any_body or script.body is None
        return "" if is_right else f"its answer was lost: {outcome.message}"
    is_right = script.is_cancelled and isinstance(outcome, asyncio.CancelledError)
    return "" if is_right else f"it was {outcome!r}"


def _id_in(body: bytes) -> Any:
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content.get("id") if isinstance(content, dict) else None


async def _turns() -> None:
    for _ in range(_TURNS):
        await checkpoint()


def _pieces(script: Hostile, rng: Random) -> list[bytes]:
    """Of an answer whose end is sure: of any other, the client may be content with the first pieces."""
    most = 4 if script.is_cancelled or not script.any_body else 1
    count = min(rng.randrange(script.is_cancelled, most), len(script.own) - 1)
    cuts = sorted(rng.sample(range(1, len(script.own)), count))
    return [script.own[a:b] for a, b in zip([0, *cuts], [*cuts, len(script.own)], strict=True)]


# --- what a server may send: by the id of the request, and with the answer of `other` behind it ---


def _hostile(rng: Random, id: str) -> Hostile:
    other = _answered(rng, rng.choice((id, _NOT + id)))[0]
    kind = rng.choice(tuple(_KINDS))
    return _KINDS[kind](rng, kind, id, other)


def _body(id: str, more: int = 0) -> bytes:
    return json.dumps({"id": id, "name": "x" * more}).encode()


def _with_length(body: bytes, more: bytes = b"") -> bytes:
    return b"%bContent-Length: %d\r\n%b\r\n%b" % (_OK, len(body), more, body)


def _in_chunks(rng: Random, body: bytes) -> bytes:
    cut = rng.randrange(1, len(body))
    parts = (body[:cut], body[cut:])
    return _CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _answered(rng: Random, id: str) -> tuple[bytes, bytes]:
    """A right answer, and its body."""
    body = _body(id, rng.randrange(40))
    return (_in_chunks(rng, body) if rng.random() < 0.4 else _with_length(body)), body


def _two(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, body = _answered(rng, id)
    return Hostile(kind, own, behind=other * rng.randrange(1, 4), body=body)


def _surplus(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, body = _answered(rng, id)
    junk = (b"\r\n", b"\0", b"x", b"H", b"HTTP/1.1 ", b"0\r\n\r\n", rng.randbytes(30), other[:-1], body)
    return Hostile(kind, own, behind=rng.choice(junk) + rng.choice((b"", other)), body=body)


def _late(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, body = _answered(rng, id)
    late = rng.choice((other, other[: rng.randrange(1, len(other))], b"\r\n" + other, rng.randbytes(9)))
    return Hostile(kind, own, late=late, body=body)


def _chunks(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    body = _body(id)
    size = b"%x" % len(body)
    sizes = (b"zz", b"-" + size, b"0x" + size, b"%x" % (len(body) - 1), b"%x" % (len(body) + 1), b"f" * 20)
    own = _CHUNKED + rng.choice(sizes) + b"\r\n" + body + b"\r\n0\r\n\r\n"
    return Hostile(kind, own, behind=other)


def _lengths(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    body = _body(id)
    both = (
        b"Content-Length: %d\r\n" % (len(body) + rng.randrange(2)),
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: %d, %d\r\n" % (len(body), len(body) + 1),
    )
    return Hostile(kind, _with_length(body, rng.choice(both)), behind=other)


def _length(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    """A wrong one, so that a body is cut, or has the beginning of the next answer at its end."""
    body = _body(id, 20)
    own = b"%bContent-Length: %d\r\n\r\n%b" % (_OK, max(0, len(body) + rng.randrange(-40, 80)), body)
    return Hostile(kind, own, behind=other, any_body=True, closes=True)


def _early_end(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, _ = _answered(rng, id)
    return Hostile(kind, own[: rng.randrange(2, len(own))], closes=True)


def _interim(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, body = _answered(rng, id)
    early = b"HTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\n"
    if rng.random() < 0.3:
        return Hostile(kind, rng.choice((early + body, early[:13] + b"\r\n\r\n" + other[9:])), behind=other)
    return Hostile(kind, early * rng.randrange(1, 9) + own, behind=other, body=body)


def _switches(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    upgrade = rng.choice((b"", b"Connection: upgrade\r\nUpgrade: x\r\n"))
    return Hostile(kind, b"HTTP/1.1 101 Yes\r\n%b\r\n" % upgrade, behind=_answered(rng, id)[0] + other)


def _no_body(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    head = rng.choice((b"204 No Content", b"304 Not Modified"))
    length = rng.choice((b"", b"Content-Length: %d\r\n" % len(other), b"Transfer-Encoding: chunked\r\n"))
    return Hostile(kind, b"HTTP/1.1 %b\r\n%b\r\n" % (head, length), behind=other, body=b"")


def _no_length(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    body = _body(id)
    last = rng.choice((b"", b"Connection: keep-alive\r\n"))
    return Hostile(kind, b"%b%b\r\n%b" % (_OK, last, body), behind=other, any_body=True, closes=True)


def _last(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    body = _body(id)
    return Hostile(kind, _with_length(body, b"Connection: close\r\n"), behind=other, body=body)


def _noise(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    """Some bytes changed, removed, put in or repeated, and then the end of the connection."""
    own = bytearray(_answered(rng, id)[0])
    for _ in range(rng.randrange(1, 4)):
        at, more = rng.randrange(len(own)), rng.randrange(1, 9)
        piece = rng.choice((rng.randbytes(1), b"\r\n", b" ", b"0", b"", b"", bytes(own[at : at + more])))
        own[at : at + rng.choice((0, 1, more))] = piece
    return Hostile(kind, bytes(own), behind=other, any_body=True, closes=True)


def _cancelled(rng: Random, kind: str, id: str, other: bytes) -> Hostile:
    own, body = _answered(rng, id)
    return Hostile(kind, own, behind=other, body=body, is_cancelled=True)


_KINDS: dict[str, Callable[[Random, str, str, bytes], Hostile]] = {
    "two in one segment": _two,
    "surplus bytes": _surplus,
    "bytes before the next request": _late,
    "bad chunks": _chunks,
    "two lengths": _lengths,
    "a wrong length": _length,
    "an early end": _early_end,
    "interim answers": _interim,
    "another protocol": _switches,
    "no body": _no_body,
    "no length": _no_length,
    "the last one": _last,
    "noise": _noise,
    "cancelled": _cancelled,
}
