"""The transport below httpx: HTTP/1.1, parsed by httptools, over connections of asyncio.

It replaces httpx's own connection pool, which costs several times as much CPU per request. And that pool
takes bytes that a server sends behind one answer for the answer to the next request.
"""

import asyncio
import re
import select
import ssl
from base64 import b64encode
from time import monotonic
from urllib.parse import SplitResult, unquote

import anyio
import httpx
from httptools import HttpParserError, HttpResponseParser

from reconciler.core.errors import Lost, NotSent, ReconcilerError, TooLarge, TransportError

# Servers close idle connections after 5 s (uvicorn) or later. One that closes just while we send
# makes the outcome of a mutation unknown, so an idle connection is dropped well before that.
IDLE_S = 2.0

_MAX_HEAD = 100 * 1024  # bytes of a head; also of all that comes between two pieces of a body
_READ_SIZE = 32 * 1024  # bytes
_NEXT_ADDRESS_S = 0.25  # then the host's next address is tried as well (RFC 8305)

_HEAD = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: (?:[!-~](?:[\t -~]*[!-~])?)?\r\n)+\r\n"
)
_PROXY_ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")

_CUT = "the connection failed before the answer was complete"


class Http1Transport(httpx.AsyncBaseTransport):
    """Connections to `origin`. A request raises NotSent until it is written, and Lost from then on.

    Its timeout `read` is the one deadline for everything. A connection is used again after a complete answer
    with nothing behind it. `proxy`: leads to an https origin through a tunnel (CONNECT). `connections`: the
    most at a time. `max_body`: bytes of an encoded body; a longer one raises TooLarge.
    """

    def __init__(
        self, origin: SplitResult, proxy: SplitResult | None, *, connections: int, max_body: int
    ) -> None:
        self._tls = _tls_context() if origin.scheme == "https" else None
        self._host = httpx.URL(origin.geturl()).raw_host.decode("ascii")
        self._port = origin.port or (443 if self._tls else 80)
        self._proxy = proxy
        self._through = f" through the proxy {proxy.netloc.rpartition('@')[2]}" if proxy else ""
        self._max_body = max_body
        self._slots = anyio.Semaphore(connections, fast_acquire=True)
        self._idle: list[Http1Connection] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` within its deadline."""
        return await self.send(await _written(request), request.extensions["timeout"]["read"])

    async def send(self, written: bytes, deadline_s: float, *, ends: bool = False) -> httpx.Response:
        """The answer to `written` over an idle or a new connection. `ends`: say that nothing more comes."""
        late = f"no complete answer within {deadline_s:g} s"
        ends_s = monotonic() + deadline_s
        if self._slots.value:
            self._slots.acquire_nowait()  # as a rule; a cancel scope costs 15 µs
        else:
            try:
                with anyio.fail_after(deadline_s):
                    await self._slots.acquire()
            except TimeoutError:
                raise NotSent(late) from None
        try:
            connection = self._reused() or await self._connected(2 / 3 * (ends_s - monotonic()))
            return await self._exchange(connection, written, ends, ends_s - monotonic(), Lost(late))
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _exchange(
        self, connection: "Http1Connection", written: bytes, ends: bool, left_s: float, late: Lost
    ) -> httpx.Response:
        """The answer to `written`. Any failure closes the connection, and so does a cancellation: otherwise
        the rest of this answer would be taken for the next one."""
        is_kept = False
        timer = asyncio.get_running_loop().call_later(left_s, connection.end, late)
        try:
            asked = connection.ask(written)
            if ends:
                connection.end_sending()
            answer = await asked
            if isinstance(answer, TransportError):
                raise answer
            is_kept = connection.is_reusable
            return answer
        finally:
            timer.cancel()
            if is_kept:
                self._idle.append(connection)
            else:
                connection.close()

    def _reused(self) -> "Http1Connection | None":
        """The idle connection that was used last: with few of them busy, few become stale."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    async def _connected(self, within_s: float) -> "Http1Connection":
        """A new connection, or NotSent with the reason."""
        try:
            with anyio.fail_after(within_s):
                return await (self._direct() if self._proxy is None else self._tunnel(self._proxy))
        except TimeoutError:
            raise NotSent(f"cannot connect{self._through}: no connection within {within_s:g} s") from None
        except (OSError, UnicodeError) as error:  # UnicodeError: the host's name is not valid
            raise NotSent(f"cannot connect{self._through}: {_words(error)}") from None

    async def _direct(self) -> "Http1Connection":
        """A connection to the origin itself. Raises OSError."""
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Http1Connection(self._max_body),
            self._host,
            self._port,
            ssl=self._tls,
            happy_eyeballs_delay=_NEXT_ADDRESS_S,
        )
        return connection

    async def _tunnel(self, proxy: SplitResult) -> "Http1Connection":
        """A connection through `proxy`, encrypted from here to the service. Raises OSError."""
        assert self._tls is not None
        assert proxy.hostname is not None
        loop = asyncio.get_running_loop()
        tls = self._tls if proxy.scheme == "https" else None
        port = proxy.port or (443 if tls else 80)
        outer, answer = await loop.create_connection(_ProxyAnswer, proxy.hostname, port, ssl=tls)
        try:
            outer.write(self._connect_request(proxy))
            await answer.is_open
            connection = Http1Connection(self._max_body)
            inner = await loop.start_tls(outer, connection, self._tls, server_hostname=self._host)
            assert inner is not None
        except BaseException:
            outer.abort()
            raise
        connection.connection_made(inner)
        return connection

    def _connect_request(self, proxy: SplitResult) -> bytes:
        """The CONNECT request, with the credentials of the proxy's URL."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        fields = f"CONNECT {host}:{self._port} HTTP/1.1\r\nhost: {host}:{self._port}\r\n"
        if proxy.username is not None:
            credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            fields += f"proxy-authorization: Basic {b64encode(credentials).decode('ascii')}\r\n"
        return f"{fields}\r\n".encode("ascii")


class CookielessClient(httpx.AsyncClient):
    """A client that takes nothing from the environment, and keeps no cookies."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, trust_env=False)

    @property  # type: ignore[misc]  # httpx's can be set
    def cookies(self) -> httpx.Cookies:
        return _NO_COOKIES


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        """Keeps none. Looking for some would take a quarter of a request's CPU."""


_NO_COOKIES = _NoCookies()


class Http1Connection(asyncio.BufferedProtocol):
    """One connection, and the answer that it is receiving.

    `is_reusable`: the newest answer is complete, and leaves the connection open for another request.
    """

    _transport: asyncio.Transport
    _raw: list[tuple[bytes, bytes]]
    _headers: httpx.Headers | None  # None: the head is not complete
    _pieces: list[bytes]
    _answer: "asyncio.Future[httpx.Response | TransportError]"

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._parser = HttpResponseParser(self)
        self._poll = select.poll()
        # One buffer for all reads: asyncio would allocate one for each. A view, because TLS writes into
        # slices.
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._is_whole = True
        self._whole_s = 0.0
        self.is_reusable = False

    def ask(self, request: bytes) -> "asyncio.Future[httpx.Response | TransportError]":
        """Send `request`; the future gets its answer.

        Errors are results, too: after a cancellation nobody would retrieve an exception.
        """
        self._answer = asyncio.get_running_loop().create_future()
        self._raw, self._headers, self._pieces = [], None, []
        self._size = 0
        self._is_whole = self.is_reusable = False
        self._since_body = 0  # bytes received since the request, or since the newest piece of the body
        if self._transport.is_closing():
            self.connection_lost(None)
        else:
            self._transport.write(request)
        return self._answer

    def end_sending(self) -> None:
        """Say that nothing more comes. TLS has no end of one direction alone: it closes the connection."""
        (self._transport.write_eof if self._transport.can_write_eof() else self.close)()

    def is_usable(self) -> bool:
        """Whether it is fresh, and the server has neither closed it nor sent unrequested bytes."""
        is_fresh = monotonic() - self._whole_s < IDLE_S
        return is_fresh and not self._transport.is_closing() and not self._poll.poll(0)

    def end(self, outcome: httpx.Response | TransportError) -> None:
        """Set the result of the request; only the first outcome counts."""
        if not self._answer.done():
            self._answer.set_result(outcome)

    def close(self) -> None:
        self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._poll.register(transport.get_extra_info("socket"), select.POLLIN)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse the received bytes. Bytes that no request asked for close the connection."""
        if self._is_whole:  # unrequested bytes
            self.close()
            return
        if self._since_body == 0 and self._headers is None and self._buffer[0] != ord("H"):
            self.end(Lost(f"{_CUT}: this is not HTTP"))  # the parser also knows RTSP
            return
        self._since_body += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except HttpParserError as error:
            self.is_reusable = False
            if not self._is_whole:
                cause = error.__context__
                self.end(cause if isinstance(cause, Lost) else Lost(f"{_CUT}: {_words(error)}"))
        if self._is_whole:
            self._finish()
        elif self._since_body > _MAX_HEAD:
            self.end(Lost(f"{_CUT}: its head is too long"))

    def connection_lost(self, error: Exception | None) -> None:
        """End the answer: complete if only the end of the connection could end it, lost otherwise."""
        if self._is_whole:
            return
        if error is None and self._lasts_until_closed():
            self._finish()
        else:
            self.end(Lost(f"{_CUT}: {_words(error) if error else 'the server closed it'}"))

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise Lost("more than the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._raw.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Keep the final head; drop an interim one. Raises Lost for a head that cannot be trusted."""
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._raw.clear()
            if self._status < 100 or self._status == 101:
                raise Lost(f"{_CUT}: the server speaks another protocol")
            return
        self._headers = headers = httpx.Headers(self._raw)
        if headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise Lost(f"{_CUT}: it has an unknown transfer encoding")

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body. Raises TooLarge beyond the limit."""
        self._since_body = 0
        self._size += len(piece)
        if self._size > self._max_body:
            raise TooLarge(f"the answer is larger than {self._max_body} bytes")
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Note the end of the answer, and whether the connection may be used again."""
        if self._headers is not None:  # not an interim answer
            self._is_whole = True
            # The rest of a request that was answered before its end would be taken for the next one.
            is_sent = not self._transport.get_write_buffer_size()
            self.is_reusable = is_sent and self._parser.should_keep_alive()

    def _lasts_until_closed(self) -> bool:
        """Whether the head gives the body no length, so that the end of the connection ends it."""
        headers = self._headers
        return headers is not None and not ("content-length" in headers or "transfer-encoding" in headers)

    def _finish(self) -> None:
        """Give the complete answer to the request."""
        self._is_whole = True
        self._whole_s = monotonic()
        body = httpx.ByteStream(b"".join(self._pieces))
        self.end(Http1Response(self._status, headers=self._headers, stream=body))


class Http1Response(httpx.Response):
    """A response that httpx never takes for a redirect."""

    @property
    def has_redirect_location(self) -> bool:
        """False: httpx would parse the location although it follows none, and fail if it is not valid."""
        return False


class _ProxyAnswer(asyncio.Protocol):
    """The answer to CONNECT. `is_open` fails with ConnectionError unless the proxy opens the tunnel."""

    def __init__(self) -> None:
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Read the answer up to its head. Bytes behind the head of a success are not accepted."""
        self._received += data
        head, end, more = self._received.partition(b"\r\n\r\n")
        if self.is_open.done() or not (end or len(head) > _MAX_HEAD):
            return
        status = _PROXY_ANSWER.match(head + end)
        if status is None or (more and status[1].startswith(b"2")):
            self._refuse("its answer to CONNECT is not valid")
        elif status[1].startswith(b"2"):
            self.is_open.set_result(None)
        else:
            self._refuse(f"it answered {status[1].decode('ascii')}")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_open.done():
            self._refuse("it closed the connection")

    def _refuse(self, why: str) -> None:
        self.is_open.set_exception(ConnectionError(why))


async def _written(request: httpx.Request) -> bytes:
    """The bytes of `request`. Raises NotSent unless they are exactly one valid request."""
    fields = b"".join([b"%b: %b\r\n" % field for field in request.headers.raw])
    head = b"%b %b HTTP/1.1\r\n%b\r\n" % (request.method.encode(), request.url.raw_path, fields)
    if not _HEAD.fullmatch(head) or fields.count(b"\n") != len(request.headers.raw):
        # The request is not shown: one of its fields may be the token.
        raise NotSent("the request is not valid")
    return head + await request.aread()


def _tls_context() -> ssl.SSLContext:
    """A context for HTTP/1.1. Raises ReconcilerError that names the wrong variable of the environment."""
    try:
        context = httpx.create_ssl_context()  # takes 20 ms
    except OSError as failure:  # an error of the key log has a file name, others have none
        variable = "SSLKEYLOGFILE" if failure.filename else "SSL_CERT_FILE"
        reason = "it holds no certificate" if isinstance(failure, ssl.SSLError) else failure.strerror
    else:
        if context.cert_store_stats()["x509"] or ssl.get_default_verify_paths().capath:
            context.set_alpn_protocols(["http/1.1"])
            return context
        variable, reason = "SSL_CERT_DIR", "there is no such directory"
    raise ReconcilerError(
        f"the environment variable {variable} cannot be used: {reason}", help=f"correct or unset {variable}"
    )


def _words(error: Exception) -> str:
    """The error's message, or its class if it has none."""
    return str(error) or type(error).__name__
