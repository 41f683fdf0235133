"""GETs over connections of their own: h11 on anyio, as in httpx, without the layers between.

Those cost more than half of the time of a GET, and a large plan is made of GETs. Whatever is special goes
the way of httpx: mutations, proxies, and addresses that have to be encoded.
"""

import select
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from time import monotonic
from urllib.parse import SplitResult

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSStream

from reconciler.core.errors import Lost, NotSent

_MAX_HEAD = 100 * 1024  # bytes
_AT_ONCE = 64 * 1024
_BROKEN = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, h11.RemoteProtocolError)

_CUT = "the connection failed before the answer was complete"

ReadBody = Callable[[AsyncIterator[bytes], str], Awaitable[bytes]]  # pieces, and how they are encoded


class Line:
    """One connection at a time to `origin`, for one GET after another. `tls`: None for http.

    A connection that was idle for `idle_s`, or that the server has closed meanwhile, is replaced.
    """

    def __init__(self, origin: SplitResult, tls: ssl.SSLContext | None, idle_s: float) -> None:
        assert origin.hostname is not None
        self._host = origin.hostname
        self._port = origin.port or (443 if tls is not None else 80)
        name = f"[{self._host}]" if ":" in self._host else self._host
        is_usual = self._port == (443 if tls is not None else 80)
        self._name = (name if is_usual else f"{name}:{self._port}").encode("ascii")
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])
        self._idle_s = idle_s
        self._stream: ByteStream | None = None
        self._http = h11.Connection(h11.CLIENT)
        self._used_s = 0.0

    async def get(
        self, target: str, headers: Mapping[str, str], read: ReadBody, *, connect_s: float
    ) -> tuple[int, Iterable[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of the answer. Raises NotSent or Lost, and what `read` raises.

        `connect_s`: how long each part of connecting may take. Whatever goes wrong, the connection is closed.
        """
        stream = await self._connected(connect_s)
        self._stream = None  # after a cancellation, the rest of an answer would be taken for the next one
        is_done = False
        try:
            await stream.send(self._head(target, headers))
            response = await self._response(stream)
            encodings = [value for name, value in response.headers if name == b"content-encoding"]
            async with aclosing(self._body(stream)) as pieces:
                body = await read(pieces, b", ".join(encodings).decode("latin-1"))
            is_done = self._may_go_on()
            return response.status_code, response.headers, body
        except _BROKEN as error:
            raise Lost(f"{_CUT}: {_words(error)}") from None
        finally:
            if is_done:
                self._stream, self._used_s = stream, monotonic()
            else:
                await _close(stream)

    async def aclose(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await _close(stream)

    async def _connected(self, connect_s: float) -> ByteStream:
        if self._stream is not None:
            if monotonic() - self._used_s < self._idle_s and not _is_readable(self._stream):
                return self._stream
            stream, self._stream = self._stream, None
            await _close(stream)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        try:
            with anyio.fail_after(connect_s):
                plain = await anyio.connect_tcp(self._host, self._port)
            if self._tls is None:
                return plain
            try:
                with anyio.fail_after(connect_s):
                    return await TLSStream.wrap(
                        plain, hostname=self._host, ssl_context=self._tls, standard_compatible=False
                    )
            except BaseException:
                await _close(plain)
                raise
        except TimeoutError:
            raise NotSent(f"cannot connect: no connection within {connect_s:g} s") from None
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise NotSent(f"cannot connect: {_words(error)}") from None

    def _head(self, target: str, headers: Mapping[str, str]) -> bytes:
        pairs = [
            (b"host", self._name),
            *((name.encode("ascii"), text.encode("ascii")) for name, text in headers.items()),
        ]
        try:
            sent = self._http.send(h11.Request(method=b"GET", target=target, headers=pairs))
        except h11.LocalProtocolError:  # its words repeat the header, which may be the token
            raise NotSent("the request is not valid") from None
        ended = self._http.send(h11.EndOfMessage())
        assert sent is not None
        assert ended is not None
        return sent + ended

    async def _response(self, stream: ByteStream) -> h11.Response:
        while True:
            event = await self._event(stream)
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Lost(f"{_CUT}: this is not HTTP")

    async def _body(self, stream: ByteStream) -> AsyncGenerator[bytes]:
        while isinstance(event := await self._event(stream), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise Lost(_CUT)

    async def _event(self, stream: ByteStream) -> object:
        """What comes next of the answer, as h11 names it."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            try:
                data = await stream.receive(_AT_ONCE)
            except anyio.EndOfStream:
                data = b""
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise Lost(f"{_CUT}: the server closed it without an answer")
            self._http.receive_data(data)
        return event

    def _may_go_on(self) -> bool:
        """Whether the connection can take another request. More than the answer was not asked for."""
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not done or self._http.trailing_data != (b"", False):
            return False
        self._http.start_next_cycle()
        return True


async def _close(stream: ByteStream) -> None:
    with anyio.CancelScope(shield=True):
        await stream.aclose()


def _is_readable(stream: ByteStream) -> bool:
    """Of an idle connection: the server has closed it, or says what nobody asked for."""
    poll = select.poll()
    poll.register(stream.extra(SocketAttribute.raw_socket), select.POLLIN)  # noqa: S610 - no Django
    return bool(poll.poll(0))


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
