"""What a server may write as an answer, and what it may not."""

import os
import re
import socket
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from reconciler.core.errors import Lost, NotSent
from reconciler.services.http1 import Http1Connection, Http1Transport
from tests.certificates import certified
from tests.services.raw_server import PATIENCE_S, Behaviour, answer, asking, resets, sends, then_closes

OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = OK + TWO + b"\r\nok"

by_method = pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])


def by_bytes(raw: bytes) -> Behaviour:
    async def behave(stream: ByteStream) -> None:
        for byte in raw:
            await stream.send(bytes([byte]))

    return behave


async def lost_and_next(behaviour: Behaviour, method: str = "GET") -> None:
    """`behaviour` is no answer; the next request gets its own, over another connection."""
    async with asking(behaviour, answer(b"next")) as ask:
        with pytest.raises(Lost, match="before the answer was complete"):
            await ask(method)
        assert (await ask(method)).body == b"next"
    assert ask.server.connections == 2


NOT_AN_ANSWER = {
    "two lengths": OK + TWO + b"Content-Length: 3\r\n\r\nok",
    "a list of two lengths": OK + b"Content-Length: 2, 3\r\n\r\nok",
    "no length": OK + b"Content-Length:\r\n\r\nok",
    "a length with a sign": OK + b"Content-Length: +2\r\n\r\nok",
    "a length below zero": OK + b"Content-Length: -2\r\n\r\nok",
    "a length in hexadecimal": OK + b"Content-Length: 0x2\r\n\r\nok",
    "a length of too many digits": OK + b"Content-Length: 99999999999999999999999\r\n\r\nok",
    "another coding": OK + b"Transfer-Encoding: gzip\r\n\r\nok",
    "another coding in chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "another coding around chunks": OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "an unknown coding": OK + b"Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks in chunks": OK + 2 * b"Transfer-Encoding: chunked\r\n" + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "a chunk without a size": CHUNKED + b"zz\r\nok\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 No\r\n" + TWO + b"\r\nok",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n" + TWO + b"\r\nok",
    "two spaces before the status": b"HTTP/1.1  200 OK\r\n" + TWO + b"\r\nok",
    "another protocol from here on": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + WHOLE,
    "another one that is named": b"HTTP/1.1 101 Yes\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + WHOLE,
    "small letters": b"http/1.1 200 OK\r\n" + TWO + b"\r\nok",
    "RTSP": b"RTSP/1.0 200 OK\r\n" + TWO + b"\r\nok",
    "ICE": b"ICE/1.0 200 OK\r\n" + TWO + b"\r\nok",
    "an empty line first": b"\r\n" + WHOLE,
    "a space first": b" " + WHOLE,
    "a continued line first": OK + b" X: a\r\n" + TWO + b"\r\nok",
    "a space before the colon": OK + b"Content-Length : 2\r\n\r\nok",
    "a header without a colon": OK + b"x\r\n" + TWO + b"\r\nok",
    "a header without a name": OK + b": x\r\n" + TWO + b"\r\nok",
    "a name of other characters": OK + b"X(: x\r\n" + TWO + b"\r\nok",
    "a NUL in a header": OK + b"X: a\0b\r\n" + TWO + b"\r\nok",
    "a CR in a header": OK + b"X: a\rb\r\n" + TWO + b"\r\nok",
}


@by_method
@pytest.mark.parametrize("raw", NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER)
async def test_what_is_not_an_answer_is_lost_and_ends_the_connection(raw: bytes, method: str) -> None:
    await lost_and_next(then_closes(sends(raw)), method)


LONG = 200_000


@pytest.mark.parametrize(
    "raw",
    [
        OK + b"X: " + LONG * b"a",
        OK + b"X" * LONG,
        OK + LONG // 8 * b"X: abc\r\n",
        CHUNKED + b"2\r\nok\r\n0\r\nX: " + LONG * b"a",
    ],
    ids=["value", "name", "lines", "trailer"],
)
async def test_a_head_without_an_end_is_lost(raw: bytes) -> None:
    await lost_and_next(sends(raw))


LAX = {
    "lines that end without CR": WHOLE.replace(b"\r\n", b"\n"),
    "a continued line": OK + b"X: a\r\n b\r\n" + TWO + b"\r\nok",
    "the same length twice": OK + TWO + TWO + b"\r\nok",
    "a length and chunks": OK + TWO + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunks and a length": OK + b"Transfer-Encoding: chunked\r\n" + TWO + b"\r\n2\r\nok\r\n0\r\n\r\n",
    "a chunk of too many digits": CHUNKED + b"ffffffffffffffffffff\r\nok",
    "a version to come": b"HTTP/1.7 200 OK\r\n" + TWO + b"\r\nok",
    "a control character in a header": OK + b"X: a\x01b\r\n" + TWO + b"\r\nok",
    "interim answers without an end": LONG // 25 * b"HTTP/1.1 103 Hints\r\n\r\n",
}


@pytest.mark.parametrize("raw", LAX.values(), ids=LAX)
async def test_what_two_servers_may_read_in_two_ways_is_lost(raw: bytes) -> None:
    await lost_and_next(then_closes(sends(raw)))


ANSWERS = {
    "with a length": (WHOLE, 200, b"ok"),
    "with spaces around the length": (OK + b"Content-Length:  2 \t\r\n\r\nok", 200, b"ok"),
    "without a reason": (b"HTTP/1.1 200\r\n" + TWO + b"\r\nok", 200, b"ok"),
    "in chunks with extensions": (CHUNKED + b"1;a=b\r\no\r\n1\r\nk\r\n0\r\n\r\n", 200, b"ok"),
    "in chunks in another spelling": (CHUNKED.replace(b"chu", b"CHU") + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
    "with trailers": (CHUNKED + b"2\r\nok\r\n0\r\nContent-Encoding: gzip\r\nX: y\r\n\r\n", 200, b"ok"),
    "after others": (2 * b"HTTP/1.1 103 Hints\r\nContent-Length: 5\r\nX: y\r\n\r\n" + WHOLE, 200, b"ok"),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "with the length of no body": (b"HTTP/1.1 304 Not Modified\r\n" + TWO + b"\r\n", 304, b""),
    "with a body of no bytes": (OK + b"Content-Length: 0\r\n\r\n", 200, b""),
}


@by_method
@pytest.mark.parametrize("pace", [sends, by_bytes], ids=["at once", "by bytes"])
@pytest.mark.parametrize(("raw", "status", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_is_read_and_the_next_one_comes_over_the_same_connection(
    raw: bytes, status: int, body: bytes, pace: object, method: str
) -> None:
    assert callable(pace)
    async with asking(pace(raw), answer(b"next")) as ask:
        got = await ask(method)
        assert (got.status, got.body) == (status, body)
        assert "x" not in got.headers
        assert (await ask(method)).body == b"next"
    assert ask.server.connections == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        sends(b"HTTP/1.0 200 OK\r\n" + TWO + b"\r\nok"),
        then_closes(sends(b"HTTP/1.0 200 OK\r\n\r\nok")),
        sends(OK + b"Connection: close\r\n" + TWO + b"\r\nok"),
        sends(OK + b"Connection: x, Close\r\n" + TWO + b"\r\nok"),
    ],
    ids=["1.0", "until the connection ends", "close", "among others"],
)
async def test_an_answer_that_is_the_last_one_ends_the_connection(behaviour: Behaviour) -> None:
    async with asking(behaviour, answer(b"next")) as ask:
        assert (await ask()).body == b"ok"
        assert (await ask()).body == b"next"
    assert ask.server.connections == 2


MORE = pytest.mark.parametrize("more", [b"x", b"H", WHOLE], ids=["other bytes", "a letter", "an answer"])


@MORE
async def test_what_comes_with_an_answer_is_not_taken_for_the_next_one(more: bytes) -> None:
    async with asking(sends(WHOLE + more), answer(b"next")) as ask:
        assert (await ask()).body == b"ok"
        assert (await ask()).body == b"next"
    assert ask.server.connections == 2


@MORE
@pytest.mark.parametrize("is_noticed", [True, False])
async def test_bytes_after_an_answer_are_not_taken_for_the_next_one(more: bytes, is_noticed: bool) -> None:
    """`is_noticed`: the event loop has had its turns before the next request."""
    streams: list[ByteStream] = []

    async def remembers(stream: ByteStream) -> None:
        streams.append(stream)
        await stream.send(WHOLE)

    async with asking(remembers, answer(b"next")) as ask:
        assert (await ask()).body == b"ok"
        os.write(streams[0].extra(SocketAttribute.raw_socket).fileno(), more)
        for _ in range(2 if is_noticed else 0):  # it looks what has come, and hands that on
            await anyio.lowlevel.checkpoint()
        assert (await ask()).body == b"next"
    assert ask.server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.services.http1.IDLE_S", 0.0)
    async with asking(answer()) as ask:
        for _ in range(2):
            await ask()
    assert ask.server.connections == 2


async def test_an_answer_that_a_reset_ends_is_lost() -> None:
    async def breaks_off(stream: ByteStream) -> None:
        await stream.send(OK + b"\r\nok")
        await anyio.wait_all_tasks_blocked()
        await resets(stream)

    await lost_and_next(breaks_off)


async def test_a_connection_closed_before_the_request_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connecting = Http1Transport._connected

    async def closed(self: Http1Transport, connect_s: float) -> Http1Connection:
        connection = await connecting(self, connect_s)
        connection.close()
        await anyio.lowlevel.checkpoint()
        return connection

    async with asking(answer()) as ask:
        with monkeypatch.context() as patch:
            patch.setattr(Http1Transport, "_connected", closed)
            with pytest.raises(Lost, match="the server closed it"):
                await ask()
        assert (await ask()).status == 200


async def test_headers_come_back_without_the_spaces_around_them() -> None:
    async with asking(sends(OK + TWO + b"X:\r\nY:  a b \t\r\nZ: \xe9\r\n\r\nok")) as ask:
        got = await ask()
    assert dict(got.headers) == {"content-length": "2", "x": "", "y": "a b", "z": "é"}


async def test_after_a_cancellation_the_rest_of_the_answer_is_not_taken_for_the_next_one() -> None:
    has_begun, is_over = anyio.Event(), anyio.Event()

    async def begins(stream: ByteStream) -> None:
        await stream.send(OK + TWO + b"\r\no")
        has_begun.set()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        is_over.set()

    async with asking(answer(), begins, answer(b"next")) as ask:
        await ask()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await has_begun.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE_S):
            await is_over.wait()
        assert (await ask()).body == b"next"
    assert ask.server.connections == 2


@pytest.mark.parametrize(
    "headers",
    [{"a": "b\r\nc: d"}, {"a": " b"}, {"a": "b\n"}, {"a": "b\0"}, {"a": "é"}, {"a b": "c"}, {"": "b"}],
)
async def test_a_request_that_would_not_be_one_is_not_sent(headers: dict[str, str]) -> None:
    async with asking(answer()) as ask:
        with pytest.raises(NotSent, match="the request is not valid"):
            await ask(headers=headers)
    assert (ask.server.requests, ask.server.connections) == ([], 0)


async def test_a_get_says_where_it_goes_and_what_it_takes() -> None:
    async with asking(answer()) as ask:
        await ask(headers={"authorization": "Bearer t", "accept-encoding": "gzip"})
    first, *fields = ask.server.requests[0].lower().removesuffix("\r\n\r\n").split("\r\n")
    host = ask.server.url.removeprefix("http://")
    assert first == "get /v1 http/1.1"
    assert {f"host: {host}", "authorization: bearer t", "accept-encoding: identity"} == set(fields)


@pytest.mark.skipif(not socket.has_ipv6, reason="without IPv6")
async def test_a_host_of_ipv6_is_asked() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("without IPv6")
    async with asking(answer(b"ok"), host="::1") as ask:
        assert (await ask()).body == b"ok"
    assert f"host: {ask.server.url.removeprefix('http://')}\r\n" in ask.server.requests[0].lower()


async def test_answers_over_tls_are_read_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, tls = certified("localhost", tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    behaviours = (
        answer(b"1"),
        answer(1_000_000 * b"2"),
        then_closes(sends(OK + b"\r\n3")),
        then_closes(sends(OK + TWO + b"\r\n4")),
        answer(b"5"),
    )
    async with asking(*behaviours, tls=tls) as ask:
        bodies = [(await ask()).body for _ in range(3)]
        with pytest.raises(Lost, match="before the answer was complete"):
            await ask()
        bodies.append((await ask()).body)
    assert bodies == [b"1", 1_000_000 * b"2", b"3", b"5"]
    assert ask.server.connections == 3


async def test_the_rest_of_a_request_that_was_answered_early_is_not_taken_for_the_next_one() -> None:
    """The server answers before it has read all: the rest is still on its way."""

    async def answers_early(stream: ByteStream) -> None:
        await answer(b"too large", "413 Content Too Large")(stream)
        await anyio.sleep_forever()

    async with asking(answers_early, answer(b"next")) as ask:
        got = await ask("POST", bytes(30_000_000))
        assert (got.status, got.body) == (413, b"too large")
        assert (await ask()).body == b"next"
    assert ask.server.connections == 2


async def test_a_path_is_sent_as_it_is_encoded() -> None:
    async with asking(answer()) as ask:
        url = f"{ask.server.url}/v1/a%20b"
        await ask.transport.request("PUT", url, headers={}, body=b"{}", deadline_s=PATIENCE_S)
    assert ask.server.requests[0].startswith("PUT /v1/a%20b HTTP/1.1\r\n")


async def test_a_mutation_is_sent_in_one_piece_with_its_length() -> None:
    async with asking(answer()) as ask:
        await ask("POST", b"{}", headers={"content-type": "application/json"})
        await ask("PUT")
        await ask("DELETE")
    heads = [request.partition("\r\n\r\n") for request in ask.server.requests]
    lengths = [re.findall(r"Content-Length: (\d+)", head) for head, _, _ in heads]
    assert [head.split("\r\n")[0] for head, _, _ in heads] == [
        "POST /v1 HTTP/1.1",
        "PUT /v1 HTTP/1.1",
        "DELETE /v1 HTTP/1.1",
    ]
    assert (lengths, [body for _, _, body in heads]) == ([["2"], ["0"], []], ["{}", "", ""])
