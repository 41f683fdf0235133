"""One request, one answer: the seam to HTTP. All requests go through httpx, over connections of `http1`.

Rules that hold for every request: https unless the host is loopback, no redirect followed, no cookie kept, at
most `MAX_BODY` bytes of decoded body, one deadline over everything, nothing retried. A failure is `NotSent`
or `Lost`, never a guess.
"""

import ipaddress
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from reconciler.core.errors import Lost, NotSent, ReconcilerError, Refused, TooLarge

if TYPE_CHECKING:
    import httpx

# `import httpx` also loads its own command line, and with it rich: 50 ms that no command of ours needs.
# httpx goes on without that module when it is not installed, which this looks like.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

MAX_BODY = 10 * 1024 * 1024  # bytes, decoded
MAX_CONNECTIONS = 32

_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]++|%[0-9A-Fa-f]{2})++"
_QUERY = r"[A-Za-z0-9._~-]+=(?:[A-Za-z0-9._~:@,+-]|%[0-9A-Fa-f]{2})*"
_PATH = re.compile(rf"(?:/{_SEGMENT})+")
_PATH_AND_QUERY = re.compile(rf"((?:/{_SEGMENT})+)(?:\?{_QUERY}(?:&{_QUERY})*)?")
_HIDDEN = re.compile(r"[\x00-\x1f\x7f/\\]")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. Header names are lower case; the body is decoded, and may contain a secret."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Transport(Protocol):
    """Sends requests to one service."""

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        """Send once, and return the complete answer within `deadline_s` seconds. Raises NotSent or Lost."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class GetOnly:
    """A transport that sends nothing but GET: the last check of a command that only reads.

    It holds whatever goes wrong, or is added later, in the code above it.
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


def check_path(method: str, path: str) -> None:
    """Raises Refused for a path that might reach another object than the one that it names.

    A valid path begins with `/`. It has no empty, `.` or `..` segment, encoded or not, no encoded `/` and no
    control character. Only a GET may carry a query.
    """
    found = (_PATH_AND_QUERY if method == "GET" else _PATH).fullmatch(path)
    bare = path.partition("?")[0]
    if not found or (("%" in bare or "/." in bare) and not all(map(_is_plain_segment, bare[1:].split("/")))):
        raise Refused(f"{path!r} is not a path of the API, so {method} is not sent")


def _is_plain_segment(part: str) -> bool:
    text = unquote(part)
    return text not in (".", "..") and not _HIDDEN.search(text)


def is_loopback(url: str) -> bool:
    """Whether the host is `localhost`, in 127.0.0.0/8, or ::1."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_parts(url: str) -> SplitResult | None:
    """The parts of an http or https address; None for any other text."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None


def host_and_port(url: str) -> str:
    """HOST:PORT of `url`, to be shown: no path, and no credentials."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _checked(base_url: str) -> SplitResult:
    """The parts of a service's address. Raises ReconcilerError unless it is https, or http on loopback."""
    parts = http_parts(base_url)
    if "@" in base_url or (parts and (parts.query or parts.fragment)):
        # The address itself is not shown: it may contain a password.
        raise ReconcilerError(
            "the address of a service contains credentials, a query or a fragment",
            help="write it as https://HOST[:PORT][/PATH]; a token has its own setting",
        )
    if parts is None:
        raise ReconcilerError(
            f"`{base_url}` is not the address of a service", help="write it as https://HOST[:PORT][/PATH]"
        )
    if parts.scheme == "http" and not is_loopback(base_url):
        raise ReconcilerError(
            f"`{base_url}` would carry the token unencrypted",
            help="use https; http is for loopback addresses only",
        )
    return parts


def _proxy_of(origin: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for `origin`; None for loopback, and so for http.

    Raises ReconcilerError for a proxy that speaks neither http nor https.
    """
    if is_loopback(origin.geturl()):
        return None
    from urllib.request import getproxies, proxy_bypass  # 10 ms, which no loopback command needs

    if proxy_bypass(origin.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    if not proxy:
        return None
    parts = http_parts(proxy if "://" in proxy else f"http://{proxy}")
    if parts is None:
        raise ReconcilerError(
            "the environment names a proxy of an unsupported kind",
            help="use an http:// or https:// proxy, or list the host in NO_PROXY",
        )
    return parts


class HttpTransport:
    """A `Transport` to one service, over one `httpx.AsyncClient`, which is opened by the first request.

    `connections`: the most at a time. `max_body`: bytes. Raises ReconcilerError at once if `base_url` is not
    acceptable.
    """

    def __init__(
        self, base_url: str, *, connections: int = MAX_CONNECTIONS, max_body: int = MAX_BODY
    ) -> None:
        self._parts = parts = _checked(base_url)
        self._origin = f"{parts.scheme}://{parts.netloc}".lower()
        self._proxy = _proxy_of(parts)
        self._connections = connections
        self._max_body = max_body
        self._client: httpx.AsyncClient | None = None

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        import httpx  # 13 ms, which no command without requests needs

        if not f"{url}/".lower().startswith(f"{self._origin}/"):
            raise NotSent(f"a request to a service other than {self._origin} was not sent")
        try:
            request = httpx.Request(
                method,
                url,
                headers={**headers, "accept-encoding": "identity"},
                content=body,
                extensions={"timeout": {"read": deadline_s}},
            )
        except httpx.InvalidURL as error:
            raise NotSent(f"not a valid address: {error}") from None
        except UnicodeError:  # of a header, which is not shown: it may be the token; or of the host
            raise NotSent("the request is not valid") from None
        if self._client is None:
            self._client = self._open()
        response = await self._client.send(request, stream=True)
        content = b"".join([piece async for piece in response.aiter_raw()])
        decoded = _decoded(content, response.headers.get("content-encoding", ""), self._max_body)
        return Answer(response.status_code, response.headers, decoded)

    async def aclose(self) -> None:
        """Close all connections at once; no request may be under way."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _open(self) -> "httpx.AsyncClient":
        """The client for all requests; its modules are imported only now."""
        from reconciler.services.http1 import CookielessClient, Http1Transport

        return CookielessClient(
            Http1Transport(self._parts, self._proxy, connections=self._connections, max_body=self._max_body)
        )


def _decoded(content: bytes, encoding: str, limit: int) -> bytes:
    """The decoded body. Raises Lost if its encoding is unknown or broken, and TooLarge beyond `limit` bytes.

    Some servers compress although asked for identity, so gzip and deflate are read. Decoding stops at the
    limit: a few kilobytes may unpack to gigabytes.
    """
    match encoding.strip().lower():
        case "" | "identity":
            body = content
        case "gzip" | "x-gzip" | "deflate":
            unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: tells gzip and zlib apart itself
            try:
                body = unzip.decompress(content, limit + 1)
            except zlib.error:
                raise Lost("the answer's compression is broken") from None
            if content and len(body) <= limit and (unzip.unused_data or not unzip.eof):
                raise Lost("the answer's compression is broken")
        case _:
            raise Lost("the answer has an encoding that was not requested")
    if len(body) > limit:
        raise TooLarge(f"the answer is larger than {limit} bytes")
    return body
