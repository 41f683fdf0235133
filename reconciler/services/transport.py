"""One request, one answer: the seam to HTTP, and the only module that imports httpx.

Plain requests go over lines without httpx's layers (`direct`), all else over httpx, by the same rules: each
over a connection of its own.

Rules that hold for every request: https unless the host is loopback, no redirect
followed, at most `MAX_BODY` bytes of decoded body, one deadline over everything,
nothing retried. A failure is `NotSent` or `Lost`, never a guess.

Each worker has a line of its own (an httpx transport with one connection): httpx's
pool rescans all its connections at each request, which costs 10 times the request.
"""

import ipaddress
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

import anyio

from reconciler.core.errors import Lost, NotSent, ReconcilerError, Refused
from reconciler.services.received import Body, lower_case

if TYPE_CHECKING:
    import ssl

    import httpx

    from reconciler.services.direct import Line

# `import httpx` also loads its own command line, and with it rich: 50 ms that no command of ours needs.
# httpx goes on without that module when it is not installed, which this looks like.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

MAX_BODY = 10 * 1024 * 1024
MAX_LINES = 32

# Servers close idle connections after 5 s (uvicorn) or later. One that closes just while we send
# makes the outcome of a mutation unknown, so an idle connection is dropped well before that.
IDLE_S = 2.0

CLOSE_S = 5.0

METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE"))
# A path and a query that go over the line as they are: httpx would write none of it in another way.
PLAIN = re.compile(r"(?:/[A-Za-z0-9_~-](?:[A-Za-z0-9._~:,@-]++|%[0-9A-F]{2})*+)++(?:\?[A-Za-z0-9._~:,&=-]+)?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. Header names are lower case; the body is decoded, and may hold a secret."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Transport(Protocol):
    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        """Send once and return the complete answer, within `deadline_s`. Raises NotSent or Lost."""
        ...

    async def aclose(self) -> None: ...


class GetOnly:
    """A transport that cannot send anything but GET: the last door of a command that only reads.

    Whatever above it goes wrong or is added later, such a command changes nothing.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        """As `Transport.request`. Raises Refused, and sends nothing, for all but a GET without a body."""
        if method != "GET" or body is not None:
            raise Refused(f"this command only reads: {method} {urlsplit(url).path} is not sent")
        return await self._inner.request(method, url, headers=headers, body=None, deadline_s=deadline_s)

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_loopback(url: str) -> bool:
    """Whether the host is `localhost`, in 127.0.0.0/8, or ::1."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_and_port(url: str) -> str:
    """Where `url` leads, for people: no path, and no credentials."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _checked(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if "@" in base_url or (usable and (parts.query or parts.fragment)):
        # The address itself is not shown: what stands there may be a password.
        raise ReconcilerError(
            "the address of a service contains credentials, a query or a fragment",
            help="write it as https://HOST[:PORT][/PATH]; a token has its own setting",
        )
    if not usable:
        raise ReconcilerError(
            f"`{base_url}` is not the address of a service", help="write it as https://HOST[:PORT][/PATH]"
        )
    if parts.scheme == "http" and not is_loopback(base_url):
        raise ReconcilerError(
            f"`{base_url}` would carry the token unencrypted",
            help="use https; http is for loopback addresses only",
        )
    return parts


def _proxy_of(origin: SplitResult) -> str | None:
    """The proxy that the environment names for `origin`; loopback is never proxied."""
    if is_loopback(origin.geturl()):
        return None
    from urllib.request import getproxies, proxy_bypass  # 10 ms, which no loopback command needs

    if proxy_bypass(origin.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ReconcilerError(
            "the environment names a proxy of an unsupported kind",
            help="use an http:// or https:// proxy, or list the host in NO_PROXY",
        )
    return proxy


class HttpTransport:
    """A `Transport` to one service. Raises ReconcilerError at once when `base_url` is not acceptable.

    `direct`: whether plain requests go without httpx; never through a proxy.
    """

    def __init__(
        self, base_url: str, *, lines: int = MAX_LINES, max_body: int = MAX_BODY, direct: bool = True
    ) -> None:
        self._parts = parts = _checked(base_url)
        self._origin = f"{parts.scheme}://{parts.netloc}".lower()
        self._proxy = _proxy_of(parts)
        self._through = f" through the proxy {host_and_port(self._proxy)}" if self._proxy else ""
        self._max_body = max_body
        self._slots = anyio.Semaphore(lines, fast_acquire=True)
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._idle_direct: list[Line] = []
        self._is_direct = direct and self._proxy is None and self._origin.isascii()
        self._tls: ssl.SSLContext | None = None

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if not f"{url}/".lower().startswith(f"{self._origin}/"):
            raise NotSent(f"a request to a service other than {self._origin} was not sent")
        target = url[len(self._origin) :]
        is_plain = self._is_direct and method in METHODS and PLAIN.fullmatch(target)
        request = None if is_plain else _prepare(method, url, headers, body, deadline_s)
        try:
            left_s = await self._slot(deadline_s)
        except TimeoutError:
            raise NotSent(_late(deadline_s)) from None
        try:
            if request is None:
                with _borrowed(self._idle_direct, self._open_direct) as line:
                    return Answer(*await line.request(method, target, headers, body, left_s))
            with anyio.fail_after(left_s), _borrowed(self._idle, self._open) as way:
                return await _exchange(way, request, self._max_body, self._through)
        except TimeoutError:
            raise Lost(_late(deadline_s)) from None
        finally:
            self._slots.release()

    async def _slot(self, within_s: float) -> float:
        """Take one, and return what is left of `within_s` seconds. Raises TimeoutError."""
        if self._slots.value:  # as a rule: a cancel scope costs more than the rest
            self._slots.acquire_nowait()
            return within_s
        began_s = anyio.current_time()
        with anyio.fail_after(within_s):
            await self._slots.acquire()
        return within_s - (anyio.current_time() - began_s)

    async def aclose(self) -> None:
        """Close all connections; no request may be under way."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            while lines := self._idle_direct or self._idle:
                await lines.pop().aclose()

    def _open_direct(self) -> "Line":
        from reconciler.services.direct import Line

        return Line(self._parts, self._encryption(), idle_s=IDLE_S, max_body=self._max_body)

    def _open(self) -> "httpx.AsyncHTTPTransport":
        import ssl

        import httpx

        verify = self._encryption() or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # None is kept: what a server sends behind an answer, httpx would take for the next one.
        one = httpx.Limits(max_connections=1, max_keepalive_connections=0)
        return httpx.AsyncHTTPTransport(verify=verify, proxy=self._proxy, limits=one)

    def _encryption(self) -> "ssl.SSLContext | None":
        """The same for all lines; None for http."""
        if self._tls is None and self._origin.startswith("https:"):
            self._tls = _tls_context()  # reading the certificates takes 20 ms
        return self._tls


def _tls_context() -> "ssl.SSLContext":
    """Raises ReconcilerError that names the variable of the environment that is wrong."""
    import ssl

    import httpx

    try:
        context = httpx.create_ssl_context()
    except OSError as failure:  # only that of the log has a file name
        variable = "SSLKEYLOGFILE" if failure.filename else "SSL_CERT_FILE"
        reason = "it holds no certificate" if isinstance(failure, ssl.SSLError) else failure.strerror
    else:
        if context.cert_store_stats()["x509"] or ssl.get_default_verify_paths().capath:
            return context
        variable, reason = "SSL_CERT_DIR", "there is no such directory"
    raise ReconcilerError(
        f"the environment variable {variable} cannot be used: {reason}", help=f"correct or unset {variable}"
    )


@contextmanager
def _borrowed(idle: list[T], open_one: Callable[[], T]) -> Iterator[T]:
    # Last in, first out: few connections are kept busy, so few go stale.
    line = idle.pop() if idle else open_one()
    try:
        yield line
    finally:
        idle.append(line)


def _prepare(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, deadline_s: float
) -> "httpx.Request":
    import httpx

    # Connecting takes at most two of these (TCP, TLS), so it times out as "not sent" before the
    # deadline strikes as "lost". The other waits end with the deadline alone.
    timeouts = {"connect": deadline_s / 3, "read": None, "write": None, "pool": None}
    try:
        return httpx.Request(
            method,
            url,
            headers={**headers, "accept-encoding": "identity"},
            content=body,
            extensions={"timeout": timeouts},
        )
    except httpx.InvalidURL as error:
        raise NotSent(f"not a valid address: {error}") from None


async def _exchange(
    line: "httpx.AsyncHTTPTransport", request: "httpx.Request", max_body: int, through: str
) -> Answer:
    import httpx

    # `from None`: an httpx error carries the request, and so the token and the body.
    try:
        response = await line.handle_async_request(request)
        try:
            headers = lower_case(response.headers.raw)
            body = Body(headers.get("content-encoding", ""), max_body)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for piece in response.stream:
                body.add(piece)
            return Answer(response.status_code, headers, body.whole())
        finally:
            await response.aclose()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
        raise NotSent(f"cannot connect{through}: {_words(error)}") from None
    except httpx.LocalProtocolError:  # its words repeat the header, which may be the token
        raise Lost("the connection failed before the answer was complete: the request is not valid") from None
    except (httpx.TransportError, OSError) as error:  # OSError: TLS errors after the handshake come raw
        raise Lost(f"the connection failed before the answer was complete: {_words(error)}") from None


def _late(deadline_s: float) -> str:
    return f"no complete answer within {deadline_s:g} s"


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
