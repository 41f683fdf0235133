import gc
import socket
import tracemalloc
import zlib
from pathlib import Path

import anyio
import pytest

from reconciler.core.errors import Lost, NotSent, ReconcilerError, TransportError
from reconciler.services.transport import MAX_BODY, Answer, HttpTransport, is_loopback
from tests.certificates import certified, greeting
from tests.services.raw_server import (
    PATIENCE_S,
    Behaviour,
    answer,
    asking,
    closes,
    drips,
    resets,
    sends,
    serving,
    stalls,
    then_closes,
    tunnels,
)

# A read and changes: what is told of their failures must be the same.
EITHER = pytest.mark.parametrize(("method", "body"), [("GET", None), ("POST", b"{}"), ("DELETE", None)])


async def get(url: str, *, max_body: int = MAX_BODY) -> Answer:
    return await request("GET", url, None, max_body=max_body)


async def request(method: str, url: str, body: bytes | None, *, max_body: int = MAX_BODY) -> Answer:
    """One request over a transport of its own, closed afterwards."""
    transport = HttpTransport(url, max_body=max_body)
    try:
        return await transport.request(method, f"{url}/v1", headers={}, body=body, deadline_s=PATIENCE_S)
    finally:
        await transport.aclose()


def gzipped(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return packer.compress(data) + packer.flush()


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_complete_answer_comes_back_with_lower_case_header_names() -> None:
    async with serving(answer(b'{"id": 1}', "201 Created", X_Request_Id="r1")) as server:
        got = await get(server.url)
    assert (got.status, got.body) == (201, b'{"id": 1}')
    assert got.headers["x-request-id"] == "r1"


async def test_a_repeated_header_keeps_all_its_values() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nVia: a\r\nvia: b\r\n\r\n"
    async with serving(sends(raw)) as server:
        assert (await get(server.url)).headers["via"] == "a, b"


@EITHER
async def test_a_refused_connection_is_not_sent(method: str, body: bytes | None) -> None:
    with pytest.raises(NotSent, match="cannot connect"):
        await request(method, f"http://127.0.0.1:{unused_port()}", body)


@EITHER
@pytest.mark.parametrize("host", ["xn--a.example", "a..b", f"{'a' * 64}.example", "xn--\u00e4.example"])
async def test_a_host_with_an_invalid_name_is_not_sent(method: str, body: bytes | None, host: str) -> None:
    with pytest.raises(NotSent):
        await request(method, f"https://{host}", body)


@EITHER
async def test_a_failed_tls_handshake_is_not_sent(method: str, body: bytes | None) -> None:
    async with serving(sends(b"this is not TLS")) as server:
        with pytest.raises(NotSent, match="cannot connect"):
            await request(method, server.url.replace("http:", "https:"), body)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(closes, id="closed before the answer"),
        pytest.param(resets, id="reset before the answer"),
        pytest.param(then_closes(sends(b"HTTP/1.1 200 O")), id="closed within the head"),
        pytest.param(
            then_closes(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")), id="closed within the body"
        ),
        pytest.param(then_closes(sends(CHUNKED + b"2\r\n{}\r\n")), id="closed before the last chunk"),
        pytest.param(sends(b"SSH-2.0-OpenSSH\r\n\r\n"), id="another protocol"),
    ],
)
@EITHER
async def test_an_incomplete_answer_is_lost(behaviour: Behaviour, method: str, body: bytes | None) -> None:
    async with serving(behaviour) as server:
        with pytest.raises(Lost, match="before the answer was complete"):
            await request(method, server.url, body)
        assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", [stalls, drips])
@EITHER
async def test_the_deadline_ends_an_answer_that_does_not_come_or_does_not_end(
    behaviour: Behaviour, method: str, body: bytes | None
) -> None:
    async with asking(answer(), behaviour, answer(b"ok")) as ask:
        await ask()  # on a busy machine, to connect may take longer than the deadline
        with pytest.raises(Lost, match=r"within 0\.2 s"):
            await ask(method, body, 0.2)
        assert (await ask()).body == b"ok"


@EITHER
async def test_waiting_for_a_connection_too_long_is_not_sent(method: str, body: bytes | None) -> None:
    async with asking(stalls) as ask, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not ask.server.requests:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(NotSent):
            await ask(method, body, 0.1)
        tasks.cancel_scope.cancel()
    assert len(ask.server.requests) == 1


@pytest.mark.parametrize(
    "behaviour",
    [answer(b"x" * 1001), sends(CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n")],
    ids=["announced", "chunked"],
)
async def test_a_body_over_the_limit_is_lost(behaviour: Behaviour) -> None:
    async with serving(behaviour) as server:
        with pytest.raises(Lost, match="larger than 1000 bytes"):
            await get(server.url, max_body=1000)


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async with serving(answer(b"x" * 1000)) as server:
        assert len((await get(server.url, max_body=1000)).body) == 1000


@pytest.mark.parametrize("pack", [gzipped, zlib.compress], ids=["gzip", "deflate"])
async def test_a_compressed_answer_is_read_although_none_was_asked_for(pack: object) -> None:
    assert callable(pack)
    encoding = "gzip" if pack is gzipped else "deflate"
    async with serving(answer(pack(b'{"id": 1}'), content_encoding=encoding)) as server:
        assert (await get(server.url)).body == b'{"id": 1}'


@pytest.mark.slow
async def test_a_small_body_that_unpacks_to_a_huge_one_is_lost_without_unpacking_it() -> None:
    bomb = gzipped(b"\0" * 200_000_000)
    async with serving(answer(bomb, content_encoding="gzip")) as server:
        tracemalloc.start()
        with pytest.raises(Lost, match="larger than"):
            await get(server.url)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * MAX_BODY


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(gzipped(b"{}")[:-3], "gzip"), (b"{}", "gzip"), (gzipped(b"{}") + b"more", "gzip"), (b"{}", "br")],
    ids=["cut off", "not compressed", "followed by more", "unknown encoding"],
)
async def test_a_body_whose_encoding_is_broken_is_lost(body: bytes, encoding: str) -> None:
    async with serving(answer(body, content_encoding=encoding)) as server:
        with pytest.raises(Lost, match=r"compression|encoding"):
            await get(server.url)


@pytest.mark.parametrize("location", ["/elsewhere", "http://[", "https://xn--a", "//\t"])
async def test_a_redirect_is_an_answer_and_is_not_followed(location: str) -> None:
    async with serving(answer(b"", "302 Found", location=location)) as server:
        got = await get(server.url)
    assert (got.status, got.headers["location"], len(server.requests)) == (302, location.strip(), 1)


async def test_no_cookie_is_kept() -> None:
    async with asking(answer(set_cookie="a=b; Path=/")) as ask:
        for _ in range(2):
            assert (await ask()).headers["set-cookie"] == "a=b; Path=/"
    assert "cookie" not in "".join(ask.server.requests).lower()


@pytest.mark.parametrize(("method", "body"), [("POST", b"{}"), ("GET", None)])
async def test_a_connection_that_the_server_closed_is_replaced(method: str, body: bytes | None) -> None:
    async with asking(then_closes(answer())) as ask:
        for _ in range(2):
            assert (await ask(method, body)).status == 200
            await anyio.wait_all_tasks_blocked()  # the server's close has arrived
    assert ask.server.connections == 2


@pytest.mark.parametrize(
    ("name", "is_trusted", "told"),
    [("localhost", True, Lost), ("localhost", False, NotSent), ("other.example", True, NotSent)],
    ids=["trusted", "another authority", "another name"],
)
async def test_the_token_goes_only_to_who_shows_a_certificate_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_trusted: bool, told: type[TransportError]
) -> None:
    """The server hangs up after the handshake: then the request was on its way."""
    with greeting(name, tmp_path / "tls") as tls:
        if is_trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(tls.authority))
        with pytest.raises(told):
            await get(f"https://localhost:{tls.port}")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"])
@pytest.mark.parametrize("name", ["not-there/x", "empty", "."])
async def test_a_wrong_variable_of_the_encryption_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    (tmp_path / "empty").touch()
    for each in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / name))
    is_right = (variable, name) in {("SSL_CERT_DIR", "."), ("SSLKEYLOGFILE", "empty")}
    with pytest.raises(NotSent if is_right else ReconcilerError) as told:
        await get(f"https://127.0.0.1:{unused_port()}")
    assert (variable in told.value.message) is not is_right


async def test_a_header_that_cannot_be_sent_is_not_repeated() -> None:
    async with asking(answer()) as ask:
        with pytest.raises(TransportError, match="the request is not valid") as caught:
            await ask(headers={"authorization": "Bearer hunter2\n"})
    assert "hunter2" not in caught.value.message
    assert ask.server.requests == []


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_parallel_requests_use_as_many_connections_as_allowed() -> None:
    async with asking(answer(), connections=4) as ask, anyio.create_task_group() as tasks:
        for _ in range(40):
            tasks.start_soon(ask)
    assert len(ask.server.requests) == 40
    assert ask.server.connections <= 4


async def test_closing_leaves_no_open_socket_behind() -> None:
    async with serving(answer()) as server:
        assert (await get(server.url)).status == 200
    gc.collect()  # an unclosed socket would warn here, and warnings are errors


async def test_the_environments_proxy_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(answer()) as server:
        assert (await get(server.url)).status == 200


@pytest.fixture
def no_bypass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


NAMED = "https://platform.example"


@pytest.mark.usefixtures("no_bypass")
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["http", "https"])
async def test_an_answer_through_a_proxy_belongs_to_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    """One tunnel for one request after another, until the service sends more than was asked for."""
    authority, tls = certified("platform.example", tmp_path / "service")
    proxys, proxy_tls = certified("localhost", tmp_path / "proxy")
    (tmp_path / "both.pem").write_bytes(authority.read_bytes() + proxys.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "both.pem"))
    first = tunnels(tls, answer(b"1"), sends(WHOLE + WHOLE))
    second = tunnels(tls, answer(b"3"), then_closes(sends(WHOLE[:-1])))
    async with serving(first, second, tls=proxy_tls if is_encrypted else None) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("://", "://ana:p%40ss@"))
        transport = HttpTransport(NAMED, connections=1)
        bodies = []
        for method, body in (("GET", None), ("POST", b"{}"), ("GET", None)):
            got = await transport.request(method, f"{NAMED}/v1", headers={}, body=body, deadline_s=PATIENCE_S)
            bodies.append(got.body)
        with pytest.raises(Lost, match="the server closed it"):
            await transport.request("POST", f"{NAMED}/v1", headers={}, body=b"{}", deadline_s=PATIENCE_S)
        await transport.aclose()
    assert bodies == [b"1", b"ok", b"3"]
    fields = "host: platform.example:443\r\nproxy-authorization: Basic YW5hOnBAc3M=\r\n\r\n"
    assert proxy.requests == 2 * [f"CONNECT platform.example:443 HTTP/1.1\r\n{fields}"]


@pytest.mark.usefixtures("no_bypass")
@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (answer(b"no", "403 Forbidden"), "it answered 403"),
        (answer(b"", "407 Proxy Authentication Required"), "it answered 407"),
        (closes, "it closed the connection"),
        (sends(b"SSH-2.0-OpenSSH\r\n\r\n"), "its answer to CONNECT is not valid"),
        (sends(b"x" * 200_000), "its answer to CONNECT is not valid"),
        (sends(b"HTTP/1.1 200 OK\r\n\r\nmore"), "its answer to CONNECT is not valid"),
        (sends(b"HTTP/1.1 200 OK\r\n\r\n"), "SSL"),
        (then_closes(sends(b"HTTP/1.1 200 OK\r\n\r\n")), ""),
        (stalls, "no connection within"),
    ],
    ids=[
        *("refuses", "asks who", "closes", "no HTTP", "no end", "more", "no service", "closes later"),
        "stalls",
    ],
)
async def test_no_tunnel_no_request(monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, told: str) -> None:
    async with serving(behaviour) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("://", "://user:hunter2@"))
        transport = HttpTransport(NAMED)
        by = proxy.url.removeprefix("http://")
        deadline_s = 0.3 if behaviour is stalls else PATIENCE_S
        with pytest.raises(NotSent, match=f"^cannot connect through the proxy {by}: .*{told}") as caught:
            await transport.request("POST", f"{NAMED}/v1", headers={}, body=b"{}", deadline_s=deadline_s)
        await transport.aclose()
    assert "hunter2" not in caught.value.message


@pytest.mark.usefixtures("no_bypass")
async def test_a_tunnel_elsewhere_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, tls = certified("other.example", tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    async with serving(tunnels(tls)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(NotSent, match="certificate verify failed"):
            await get(NAMED)


@pytest.mark.usefixtures("no_bypass")
async def test_an_unreachable_proxy_is_named_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = unused_port()
    monkeypatch.setenv("https_proxy", f"http://user:hunter2@127.0.0.1:{port}")
    with pytest.raises(NotSent, match=f"cannot connect through the proxy 127.0.0.1:{port}: ") as caught:
        await get(NAMED)
    assert "hunter2" not in caught.value.message


@pytest.mark.usefixtures("no_bypass")
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "http://h:x", "http://", "http://[::1"])
def test_a_proxy_of_an_unsupported_kind_is_refused(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ReconcilerError, match="unsupported kind"):
        HttpTransport(NAMED)


async def test_a_request_for_another_service_is_not_sent() -> None:
    async with serving(answer()) as server:
        transport = HttpTransport(server.url)
        for url in ("http://127.0.0.1:1/v1", f"{server.url}0/v1", f"{server.url}@host.example/v1"):
            with pytest.raises(NotSent, match="a service other than"):
                await transport.request("GET", url, headers={}, body=None, deadline_s=1)
    assert server.requests == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://127.3.2.1", "http://[::1]:80/api", "http://localhost:1"]
)
def test_plain_http_is_accepted_for_loopback(url: str) -> None:
    assert is_loopback(url)
    assert HttpTransport(url)


@pytest.mark.parametrize(
    "url",
    ["http://platform.example", "http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example"],
)
def test_plain_http_to_another_host_is_refused_at_once(url: str) -> None:
    assert not is_loopback(url)
    with pytest.raises(ReconcilerError, match="unencrypted"):
        HttpTransport(url)


@pytest.mark.parametrize(
    "url", ["", "platform.example", "ftp://h", "https://", "https://h:x", "https://[::1"]
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    assert not is_loopback(url)
    with pytest.raises(ReconcilerError, match="is not the address of a service"):
        HttpTransport(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@h",
        "https://user:p/ss?hunter2@h",  # not read as credentials, but meant as such
        "https://user:[hunter2@h",
        "https://h?token=hunter2",
        "https://h#hunter2",
    ],
)
def test_an_address_with_credentials_is_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ReconcilerError) as caught:
        HttpTransport(url)
    assert "hunter2" not in caught.value.message + caught.value.help


def test_the_repr_of_an_answer_shows_neither_body_nor_headers() -> None:
    assert repr(Answer(200, {"set-cookie": "hunter2"}, b"hunter2")) == "Answer(status=200)"
