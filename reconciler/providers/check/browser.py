"""A browser as far as sign-in needs one: cookies by host, redirects followed one at a time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urljoin, urlsplit

from reconciler.core.errors import TransportError
from reconciler.providers.check.bench import Bench, Unmet
from reconciler.providers.check.evidence import Exchange
from reconciler.providers.check.request import Request
from reconciler.services.transport import Answer

REDIRECTS = (301, 302, 303, 307, 308)
_NEXT_COOKIE = re.compile(r", (?=[^;,=\s]+=)")  # the transport joins equal headers; a date has no `=`


@dataclass(slots=True)
class Browser:
    """`url`: where it is. Cookies are kept for the host that set them."""

    bench: Bench
    url: str = ""
    _cookies: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    async def open(self, url: str, form: Mapping[str, str] | None = None) -> Answer:
        """The answer, no redirect followed, waiting out a 429. Raises Unmet when there is none."""
        return await self.bench.wait_out(lambda: self._open(url, form))

    async def _open(self, url: str, form: Mapping[str, str] | None) -> Answer:
        origin = _origin(url)
        headers = {"accept": "text/html"}
        cookies = [f"{name}={value}" for (host, name), value in self._cookies.items() if host == origin]
        if cookies:
            headers["cookie"] = "; ".join(cookies)
        body = None
        if form is not None:
            headers |= {"content-type": "application/x-www-form-urlencoded", "origin": origin}
            body = urlencode(form).encode()
        request = Request("GET" if body is None else "POST", _shown(url), ())
        transport = self.bench.shared.open_transport(origin)
        try:
            answer = await transport.request(
                request.method, url, headers=headers, body=body, deadline_s=self.bench.subject.deadline_s
            )
        except TransportError as failure:
            self.bench.trail.append(Exchange(request, None, failure.message))
            raise Unmet(f"no answer: {failure.message}") from None
        finally:
            await transport.aclose()
        # A page's text is of no use to who reads the report, and may hold what only its reader may see.
        self.bench.trail.append(Exchange(request, Answer(answer.status, answer.headers, b"")))
        self._keep(origin, answer.headers.get("set-cookie", ""))
        self.url = url
        return answer

    def location(self, answer: Answer) -> str:
        """Where `answer` redirects to. Raises Unmet when it does not."""
        if answer.status not in REDIRECTS or "location" not in answer.headers:
            raise Unmet(f"{_shown(self.url)} was answered {answer.status}, not with a redirect")
        return urljoin(self.url, answer.headers["location"])

    def _keep(self, origin: str, header: str) -> None:
        for cookie in _NEXT_COOKIE.split(header) if header else ():
            pair, *attributes = (part.strip() for part in cookie.split(";"))
            name, _, value = pair.partition("=")
            if any(each.lower() == "max-age=0" for each in attributes):
                self._cookies.pop((origin, name), None)
            else:
                self._cookies[origin, name] = value


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _shown(url: str) -> str:
    """Without the values of its query: `code` and `state` open a session."""
    address, mark, query = url.partition("?")
    names = [pair.partition("=")[0] for pair in query.split("&") if pair]
    return f"{address}{mark}{'&'.join(f'{name}=…' for name in names)}"
