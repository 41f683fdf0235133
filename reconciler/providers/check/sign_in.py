"""Sign-in, as a browser goes through it, against the sign-in service that the provider was set up with."""

import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit, urlunsplit

from reconciler.core.errors import ReconcilerError, TransportError
from reconciler.providers.check.bench import (
    Bench,
    Group,
    NotChecked,
    SignInSubject,
    Unmet,
    check_refused,
    is_success,
    path_of,
)
from reconciler.providers.check.request import Exchange, Request, parsed, without_values
from reconciler.services.transport import Answer, HttpTransport

REDIRECTS = (301, 302, 303, 307, 308)
_NEXT_COOKIE = re.compile(r", (?=[^;,=\s]+=)")  # the transport joins equal headers; a date has no `=`
_AUTHORIZE = "/oauth/authorize"
_NOTES = "notes, Extension providers: `state` single-use and bound to the session, PKCE S256"
_LEAST_STATE = 16
_MOST_STEPS = 8
_STRANGER, _OTHER_ORGANIZATION = "check-stranger", "check-another-organization"
sign_in = Group("sign-in")


@dataclass(slots=True)
class Browser:
    """A browser as far as sign-in needs one. `url`: its page. Cookies go to the host that set them."""

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
        request = Request("GET" if body is None else "POST", without_values(url), ())
        try:
            answer = await _exchanged(self.bench, request.method, url, headers, body)
        except ReconcilerError as failure:  # or an address that nothing is sent to
            self.bench.trail.append(Exchange(request, None, failure.message))
            raise Unmet(f"no answer: {failure.message}") from None
        # The text of a page does not help in a report, and may be meant for its visitor alone.
        self.bench.trail.append(Exchange(request, Answer(answer.status, answer.headers, b"")))
        self._keep(origin, answer.headers.get("set-cookie", ""))
        self.url = url
        return answer

    def location(self, answer: Answer) -> str:
        """Where `answer` redirects to. Raises Unmet when it does not."""
        if answer.status not in REDIRECTS or "location" not in answer.headers:
            raise Unmet(f"{without_values(self.url)} was answered {answer.status}, not with a redirect")
        try:
            return urljoin(self.url, answer.headers["location"])
        except ValueError:
            raise Unmet(f"{without_values(self.url)} redirects to what is not an address") from None

    def _keep(self, origin: str, header: str) -> None:
        for cookie in _NEXT_COOKIE.split(header) if header else ():
            pair, *attributes = (part.strip() for part in cookie.split(";"))
            name, _, value = pair.partition("=")
            if any(attribute.lower() == "max-age=0" for attribute in attributes):
                self._cookies.pop((origin, name), None)
            else:
                self._cookies[origin, name] = value


async def _exchanged(
    bench: Bench, method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> Answer:
    """The answer of another host than the provider's. Raises TransportError."""
    async with aclosing(HttpTransport(_origin(url))) as transport:
        return await transport.request(
            method, url, headers=headers, body=body, deadline_s=bench.subject.deadline_s
        )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _settings(bench: Bench) -> SignInSubject:
    if bench.subject.sign_in is None:
        raise NotChecked("no sign-in service was given (--auth-url, --user)")
    return bench.subject.sign_in


async def _begin(bench: Bench, browser: Browser) -> tuple[str, dict[str, str]]:
    """The address at the platform that the provider sends the browser to, and its parameters."""
    settings = _settings(bench)
    id = (await bench.target()).id
    url = browser.location(await browser.open(bench.subject.url(f"{path_of(id)}/sso")))
    authorize = settings.auth_url.rstrip("/") + _AUTHORIZE
    if urlunsplit(urlsplit(url)._replace(query="", fragment="")) != authorize:
        raise Unmet(f"the browser was not redirected to {authorize}")
    given = parse_qs(urlsplit(url).query, keep_blank_values=True)
    return url, {name: values[0] for name, values in given.items()}


async def _consent(bench: Bench, browser: Browser, url: str, stranger: str = "") -> str:
    """Sign in at the platform's page; the address that the browser is sent back to.

    As `stranger`, if one is given: NotChecked when the page does not let one choose.
    """
    answer = await browser.open(url)
    if answer.status == 200:
        answer = await browser.open(url, {"user": stranger or _settings(bench).user_id})
    elif stranger:
        raise NotChecked("the sign-in service does not ask who signs in")
    back = browser.location(answer)
    if "code=" not in urlsplit(back).query:
        raise NotChecked("the sign-in service gave no code: does it know the user?")
    return back


async def _on_the_way_back(bench: Bench) -> tuple[Browser, str, str]:
    """A browser that has signed in, the address that it is sent back to, and the `state` of the sign-in."""
    browser = Browser(bench)
    url, given = await _begin(bench, browser)
    return browser, await _consent(bench, browser, url), given.get("state", "")


async def _followed(browser: Browser, url: str) -> Answer:
    """The answer at the end of the redirects; one that leads to the platform is not followed."""
    platform = _settings(browser.bench).auth_url.rstrip("/") + _AUTHORIZE
    answer = await browser.open(url)
    for _ in range(_MOST_STEPS):
        if answer.status not in REDIRECTS or browser.location(answer).startswith(platform):
            break
        answer = await browser.open(browser.location(answer))
    return answer


async def _signed_in(bench: Bench) -> tuple[Browser, str, Answer]:
    """A browser at the end of a member's sign-in, the address of the callback, and the page at the end."""
    browser, back, _ = await _on_the_way_back(bench)
    page = await _followed(browser, back)
    if page.status != 200:
        raise NotChecked(f"the sign-in ends with {page.status}, which another check reports")
    return browser, back, page


async def _expect_hidden(bench: Bench, answer: Answer, page: Answer) -> None:
    """Raises Unmet when `answer` shows the resource as `page` does, NotChecked when that is not certain."""
    if answer.status >= 500:
        raise Unmet(f"it was answered {answer.status}")
    if not is_success(answer):
        return
    made = await bench.target()
    if answer.body == page.body or made.id.encode() in answer.body:
        raise Unmet(f"the resource's page is shown ({answer.status})")
    raise NotChecked(f"it was answered {answer.status} with another page: check what that page shows")


async def _stranger(bench: Bench) -> str:
    """The id of a user of another organization, registered in a sandbox; other services: NotChecked."""
    missing = NotChecked(
        "the sign-in service is not a sandbox, so no user of another organization can be registered"
    )
    user = {"id": _STRANGER, "organizations": [{"id": _OTHER_ORGANIZATION, "role": "admin"}]}
    url = f"{_settings(bench).auth_url.rstrip('/')}/_sandbox/users"
    headers = {"content-type": "application/json"}
    try:
        answer = await _exchanged(bench, "POST", url, headers, json.dumps(user).encode())
    except TransportError:
        raise missing from None
    body = parsed(answer)
    if not is_success(answer) or not isinstance(body, dict) or body.get("id") != _STRANGER:
        raise missing
    return _STRANGER


@sign_in(
    "it starts at the platform",
    "GET of `/extensions/{id}/sso` redirects to {auth_url}/oauth/authorize with `client_id`, "
    "`response_type=code`, `redirect_uri` and `scope=read`",
    "platform API, 4.5 rule 2 and 5.3 rule 1",
)
async def begins(bench: Bench) -> None:
    _, given = await _begin(bench, Browser(bench))
    for name, value in {"response_type": "code", "scope": "read"}.items():
        if given.get(name) != value:
            raise Unmet(f"`{name}` is not `{value}`")
    for name in ("client_id", "redirect_uri"):
        if not given.get(name):
            raise Unmet(f"`{name}` is missing")


@sign_in("with a `state`", "each sign-in has its own `state`, which is too long to guess", _NOTES)
async def with_state(bench: Bench) -> None:
    states = [(await _begin(bench, Browser(bench)))[1].get("state", "") for _ in range(2)]
    if not all(states):
        raise Unmet("`state` is missing: an attacker can sign a person in with someone else's code")
    if states[0] == states[1]:
        raise Unmet("two sign-ins have the same `state`")
    if min(map(len, states)) < _LEAST_STATE:
        raise Unmet(f"`state` has fewer than {_LEAST_STATE} characters")


@sign_in("with PKCE", "`code_challenge` is sent, with the method S256", _NOTES)
async def with_challenge(bench: Bench) -> None:
    _, given = await _begin(bench, Browser(bench))
    if given.get("code_challenge_method") != "S256" or not given.get("code_challenge"):
        raise Unmet("there is no `code_challenge` with the method S256")


@sign_in(
    "it ends at the resource",
    "a user of the organization who signs in gets to a page (200), and the next time without the platform",
    "platform API, 4.5 rule 2 and 5.3",
)
async def ends(bench: Bench) -> None:
    browser, back, _ = await _on_the_way_back(bench)
    page = await _followed(browser, back)
    if page.status != 200:
        raise Unmet(f"the sign-in ends with {page.status}")
    again = await browser.open(bench.subject.url(f"{path_of((await bench.target()).id)}/sso"))
    if again.status in REDIRECTS and browser.location(again).startswith(_settings(bench).auth_url):
        raise Unmet("a user who is signed in is sent to the platform again")


@sign_in(
    "from another organization",
    "a user of another organization never gets to the resource's page, neither by signing in (4xx, or sent "
    "to the platform again) nor at its address afterwards",
    "platform API, 5.3 rule 4; notes: the organization checked against introspection at every sign-in",
)
async def from_another_organization(bench: Bench) -> None:
    stranger = await _stranger(bench)
    member, _, page = await _signed_in(bench)
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url, stranger)
    await _expect_hidden(bench, await _followed(browser, back), page)
    await _expect_hidden(bench, await _followed(browser, member.url), page)


@sign_in(
    "the page without a session",
    "the address that the sign-in ended at does not show the resource to a browser without cookies",
    "platform API, 4.5 rule 2 and 5.3 rule 4",
)
async def without_a_session(bench: Bench) -> None:
    member, _, page = await _signed_in(bench)
    await _expect_hidden(bench, await _followed(Browser(bench), member.url), page)


@sign_in(
    "in another browser", "the callback is refused (4xx) in a browser that did not start the sign-in", _NOTES
)
async def in_another_browser(bench: Bench) -> None:
    _, back, _ = await _on_the_way_back(bench)
    check_refused(await Browser(bench).open(back))


@sign_in("with another `state`", "the callback with another `state` is refused (4xx)", _NOTES)
async def with_another_state(bench: Bench) -> None:
    browser, back, state = await _on_the_way_back(bench)
    if not state or state not in back:
        raise NotChecked("there is no `state`, which another check reports")
    check_refused(await browser.open(back.replace(state, "x" * len(state))))


@sign_in("the same callback twice", "the same `state` and code again are refused (4xx)", _NOTES)
async def twice(bench: Bench) -> None:
    browser, back, _ = await _signed_in(bench)
    check_refused(await browser.open(back))
