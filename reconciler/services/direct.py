"""Requests over connections of their own: httptools on asyncio, without httpx and the layers below it.

Those cost most of the time of a request. Whatever is special goes the way of httpx: proxies, other methods,
and addresses that have to be encoded.
"""

import asyncio
import re
import select
import ssl
from collections.abc import Mapping
from time import monotonic
from urllib.parse import SplitResult

import anyio
from httptools import HttpParserError, HttpResponseParser

from reconciler.core.errors import Lost, NotSent
from reconciler.services.received import Body, lower_case

_MAX_HEAD = 100 * 1024  # bytes; likewise of whatever else stands between two pieces of a body
_AT_ONCE = 32 * 1024
_NEXT_ADDRESS_S = 0.25  # then another address of the host is tried beside (RFC 8305)

_FIELDS = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: (?:[!-~](?:[\t -~]*[!-~])?)?\r\n)+")

_WITH_BODY = ("POST", "PUT", "PATCH")  # these tell its length, also where there is none

_CUT = "the connection failed before the answer was complete"

Found = tuple[int, Mapping[str, str], bytes]  # status, headers, body


class Line:
    """One connection at a time to `origin`, for one request after another. `tls`: None for http.

    A connection that was idle for `idle_s`, or that the server has closed meanwhile, is replaced.
    `max_body`: bytes of a decoded body.
    """

    def __init__(
        self, origin: SplitResult, tls: ssl.SSLContext | None, *, idle_s: float, max_body: int
    ) -> None:
        assert origin.hostname is not None
        self._host = origin.hostname
        self._port = origin.port or (443 if tls is not None else 80)
        name = f"[{self._host}]" if ":" in self._host else self._host
        is_usual = self._port == (443 if tls is not None else 80)
        self._name = name if is_usual else f"{name}:{self._port}"
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])
        self._idle_s = idle_s
        self._max_body = max_body
        self._connection: _Connection | None = None
        self._used_s = 0.0

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Found:
        """The complete answer. Raises NotSent, Lost, TooLarge, or TimeoutError after `deadline_s`.

        Whatever goes wrong, the connection is closed.
        """
        whole = self._head(method, target, headers, len(body or b"")) + (body or b"")
        ends_s = monotonic() + deadline_s
        connection = await self._connected(2 / 3 * deadline_s)  # "not sent" comes before "lost"
        self._connection = None  # after a cancellation, the rest of an answer would be taken for the next one
        timer = asyncio.get_running_loop().call_later(ends_s - monotonic(), connection.fail, TimeoutError())
        try:
            found = await connection.ask(whole)
            if isinstance(found, BaseException):
                raise found
            if connection.may_go_on:
                self._connection, self._used_s = connection, monotonic()
            return found
        finally:
            timer.cancel()
            if self._connection is None:
                connection.close()

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connected(self, connect_s: float) -> "_Connection":
        if self._connection is not None:
            if monotonic() - self._used_s < self._idle_s and self._connection.is_idle():
                return self._connection
            self._connection.close()
        try:
            with anyio.fail_after(connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._max_body),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    happy_eyeballs_delay=_NEXT_ADDRESS_S,
                )
        except TimeoutError:
            raise NotSent(f"cannot connect: no connection within {connect_s:g} s") from None
        except OSError as error:
            raise NotSent(f"cannot connect: {_words(error)}") from None
        return connection

    def _head(self, method: str, target: str, headers: Mapping[str, str], length: int) -> bytes:
        sent = {"host": self._name, **headers, "accept-encoding": "identity"}
        if length or method in _WITH_BODY:
            sent["content-length"] = str(length)
        fields = "".join([f"{name}: {text}\r\n" for name, text in sent.items()])
        if not _FIELDS.fullmatch(fields) or fields.count("\n") != len(sent):
            # Not shown: one of them may be the token.
            raise NotSent("the request is not valid")
        return f"{method} {target} HTTP/1.1\r\n{fields}\r\n".encode("ascii")


class _Connection(asyncio.BufferedProtocol):
    """One connection, and the answer that comes over it.

    `may_go_on`: the newest answer is complete, and leaves the connection open for another one.
    """

    _transport: asyncio.Transport
    _raw: list[tuple[bytes, bytes]]
    _headers: Mapping[str, str]
    _answer: asyncio.Future[Found | BaseException]

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._parser = HttpResponseParser(self)
        self._poll = select.poll()
        # Its own, as asyncio would make one for each piece; and a view of it, as TLS writes into slices.
        self._buffer = memoryview(bytearray(_AT_ONCE))
        self._body: Body | None = None  # None: the head is not complete
        self._is_whole = True
        self.may_go_on = False

    def ask(self, request: bytes) -> "asyncio.Future[Found | BaseException]":
        """Send `request`. An error comes as a result: of an exception, nobody would take notice after a
        cancellation."""
        self._answer = asyncio.get_running_loop().create_future()
        self._raw, self._body = [], None
        self._is_whole = self.may_go_on = False
        self._bare = 0  # bytes since the request, or the newest piece of the body
        if self._transport.is_closing():
            self.connection_lost(None)
        else:
            self._transport.write(request)
        return self._answer

    def is_idle(self) -> bool:
        """After an answer: the server has neither closed the connection nor said what nobody asked for."""
        return not self._transport.is_closing() and not self._poll.poll(0)

    def fail(self, error: BaseException) -> None:
        self._tell(error)

    def close(self) -> None:
        self._transport.abort()

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._poll.register(transport.get_extra_info("socket"), select.POLLIN)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_whole:  # nobody asked for it
            self.close()
            return
        if self._bare == 0 and self._body is None and self._buffer[0] != ord("H"):
            self.fail(Lost(f"{_CUT}: this is not HTTP"))  # the parser also knows RTSP
            return
        self._bare += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except HttpParserError as error:
            self.may_go_on = False
            if not self._is_whole:
                self.fail(error.__context__ or Lost(f"{_CUT}: {_words(error)}"))
        if self._is_whole:
            self._finish()
        elif self._bare > _MAX_HEAD:
            self.fail(Lost(f"{_CUT}: its head is too long"))

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_whole:
            return
        if self._body is not None and error is None and self._lasts_until_closed():
            self._finish()
        else:
            self.fail(Lost(f"{_CUT}: {_words(error) if error else 'the server closed it'}"))

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise Lost("more than the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._raw.clear()
            if self._status < 100 or self._status == 101:
                raise Lost(f"{_CUT}: the server speaks another protocol")
            return
        self._headers = headers = lower_case(self._raw)
        if headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise Lost(f"{_CUT}: it has an unknown transfer encoding")
        self._body = Body(headers.get("content-encoding", ""), self._max_body)

    def on_body(self, piece: bytes) -> None:
        assert self._body is not None
        self._bare = 0
        self._body.add(piece)

    def on_message_complete(self) -> None:
        if self._body is not None:  # and no interim answer
            self._is_whole = True
            # What is left of a request that was answered before its end would be taken for the next one.
            is_sent = not self._transport.get_write_buffer_size()
            self.may_go_on = is_sent and self._parser.should_keep_alive()

    def _lasts_until_closed(self) -> bool:
        return "content-length" not in self._headers and "transfer-encoding" not in self._headers

    def _finish(self) -> None:
        assert self._body is not None
        self._is_whole = True
        try:
            self._tell((self._status, self._headers, self._body.whole()))
        except Lost as error:
            self.fail(error)

    def _tell(self, outcome: Found | BaseException) -> None:
        if not self._answer.done():
            self._answer.set_result(outcome)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
