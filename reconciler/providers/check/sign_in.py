"""Sign-in, as a browser goes through it, against the sign-in service that the provider was set up with."""

import json
from urllib.parse import parse_qs, urlsplit, urlunsplit

from reconciler.core.errors import TransportError
from reconciler.providers.check.bench import Bench, NotChecked, Unmet, check, path_of
from reconciler.providers.check.browser import REDIRECTS, Browser
from reconciler.providers.check.evidence import parsed
from reconciler.providers.check.subject import SignInSubject
from reconciler.services.transport import Answer

_AUTHORIZE = "/oauth/authorize"
_NOTES = "notes, Extension providers: `state` single-use and bound to the session, PKCE S256"
_LEAST_STATE = 16
_MOST_STEPS = 8
_SUCCESS = (200,)
_STRANGER, _ELSEWHERE = "check-stranger", "check-another-organization"


def _settings(bench: Bench) -> SignInSubject:
    if bench.subject.sign_in is None:
        raise NotChecked("no sign-in service was given (--auth-url, --user)")
    return bench.subject.sign_in


async def _begin(bench: Bench, browser: Browser) -> tuple[str, dict[str, str]]:
    """The address at the platform that the provider sends the browser to, and its parameters."""
    settings = _settings(bench)
    id = (await bench.target()).id
    url = browser.location(await browser.open(bench.subject.url(f"{path_of(id)}/sso")))
    if (
        urlunsplit(urlsplit(url)._replace(query="", fragment=""))
        != settings.auth_url.rstrip("/") + _AUTHORIZE
    ):
        raise Unmet(f"the browser was not redirected to {settings.auth_url.rstrip('/')}{_AUTHORIZE}")
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


async def _finish(browser: Browser, back: str) -> int:
    """Follow the way back to its end; the last status."""
    return (await _followed(browser, back)).status


async def _followed(browser: Browser, url: str) -> Answer:
    """What comes in the end; a redirect that leads to the platform is not followed."""
    platform = _settings(browser.bench).auth_url.rstrip("/") + _AUTHORIZE
    answer = await browser.open(url)
    for _ in range(_MOST_STEPS):
        if answer.status not in REDIRECTS or browser.location(answer).startswith(platform):
            break
        answer = await browser.open(browser.location(answer))
    return answer


async def _page(bench: Bench) -> tuple[str, Answer]:
    """Where the sign-in of a member of the organization ends, and what is shown there."""
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    page = await _followed(browser, await _consent(bench, browser, url))
    if page.status not in _SUCCESS:
        raise NotChecked(f"the sign-in ends with {page.status}, which another check reports")
    return browser.url, page


async def _expect_hidden(bench: Bench, answer: Answer, page: Answer) -> None:
    """Raises Unmet when `answer` shows the resource as `page` does, NotChecked when that cannot be said."""
    if not 200 <= answer.status < 300:
        if answer.status >= 500:
            raise Unmet(f"it was answered {answer.status}")
        return
    made = await bench.target()
    if answer.body == page.body or made.id.encode() in answer.body:
        raise Unmet(f"the resource's page is shown ({answer.status})")
    raise NotChecked(f"it was answered {answer.status} with another page: check what that page shows")


async def _stranger(bench: Bench) -> str:
    """A user of another organization, whom a sandbox is asked to know. Raises NotChecked elsewhere."""
    missing = NotChecked(
        "the sign-in service is not a sandbox, so no user of another organization can be registered"
    )
    user = {"id": _STRANGER, "organizations": [{"id": _ELSEWHERE, "role": "admin"}]}
    url = f"{_settings(bench).auth_url.rstrip('/')}/_sandbox/users"
    parts = urlsplit(url)
    transport = bench.shared.open_transport(f"{parts.scheme}://{parts.netloc}")
    try:
        answer = await transport.request(
            "POST",
            url,
            headers={"content-type": "application/json"},
            body=json.dumps(user).encode(),
            deadline_s=bench.subject.deadline_s,
        )
    except TransportError:
        raise missing from None
    finally:
        await transport.aclose()
    body = parsed(answer)
    if not 200 <= answer.status < 300 or not isinstance(body, dict) or body.get("id") != _STRANGER:
        raise missing
    return _STRANGER


@check(
    "sign-in",
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


@check("sign-in", "with a `state`", "each sign-in has its own `state`, which is too long to guess", _NOTES)
async def with_state(bench: Bench) -> None:
    states = [(await _begin(bench, Browser(bench)))[1].get("state", "") for _ in range(2)]
    if not all(states):
        raise Unmet("`state` is missing: an attacker can sign a person in with someone else's code")
    if states[0] == states[1]:
        raise Unmet("two sign-ins have the same `state`")
    if min(map(len, states)) < _LEAST_STATE:
        raise Unmet(f"`state` has fewer than {_LEAST_STATE} characters")


@check("sign-in", "with PKCE", "`code_challenge` is sent, with the method S256", _NOTES)
async def with_challenge(bench: Bench) -> None:
    _, given = await _begin(bench, Browser(bench))
    if given.get("code_challenge_method") != "S256" or not given.get("code_challenge"):
        raise Unmet("there is no `code_challenge` with the method S256")


@check(
    "sign-in",
    "it ends at the resource",
    "a user of the organization who signs in gets to a page (200), and the next time without the platform",
    "platform API, 4.5 rule 2 and 5.3",
)
async def ends(bench: Bench) -> None:
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    status = await _finish(browser, await _consent(bench, browser, url))
    if status not in _SUCCESS:
        raise Unmet(f"the sign-in ends with {status}")
    again = await browser.open(bench.subject.url(f"{path_of((await bench.target()).id)}/sso"))
    if again.status in REDIRECTS and browser.location(again).startswith(_settings(bench).auth_url):
        raise Unmet("a user who is signed in is sent to the platform again")


@check(
    "sign-in",
    "from another organization",
    "a user of another organization never gets to the resource's page, neither by signing in (4xx, or sent "
    "to the platform again) nor at its address afterwards",
    "platform API, 5.3 rule 4; notes: the organization checked against introspection at every sign-in",
)
async def from_another_organization(bench: Bench) -> None:
    stranger = await _stranger(bench)
    address, page = await _page(bench)
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url, stranger)
    await _expect_hidden(bench, await _followed(browser, back), page)
    await _expect_hidden(bench, await _followed(browser, address), page)


@check(
    "sign-in",
    "the page without a session",
    "the address that the sign-in ended at does not show the resource to a browser without cookies",
    "platform API, 4.5 rule 2 and 5.3 rule 4",
)
async def without_a_session(bench: Bench) -> None:
    address, page = await _page(bench)
    await _expect_hidden(bench, await _followed(Browser(bench), address), page)


async def _refused(bench: Bench, browser: Browser, back: str) -> None:
    answer = await browser.open(back)
    if not 400 <= answer.status < 500:
        raise Unmet(f"it was answered {answer.status}")


@check(
    "sign-in",
    "in another browser",
    "the callback is refused (4xx) in a browser that did not start the sign-in",
    _NOTES,
)
async def in_another_browser(bench: Bench) -> None:
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    await _refused(bench, Browser(bench), back)


@check("sign-in", "with another `state`", "the callback with another `state` is refused (4xx)", _NOTES)
async def with_another_state(bench: Bench) -> None:
    browser = Browser(bench)
    url, given = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    state = given.get("state", "")
    if not state or state not in back:
        raise NotChecked("there is no `state`, which another check reports")
    await _refused(bench, browser, back.replace(state, "x" * len(state)))


@check("sign-in", "the same callback twice", "the same `state` and code again are refused (4xx)", _NOTES)
async def twice(bench: Bench) -> None:
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    status = await _finish(browser, back)
    if status not in _SUCCESS:
        raise NotChecked(f"the sign-in ends with {status}, which another check reports")
    await _refused(bench, browser, back)
