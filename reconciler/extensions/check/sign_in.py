"""Sign-in, as a browser goes through it, against the sign-in service that the provider was set up with."""

from urllib.parse import parse_qs, urlsplit, urlunsplit

from reconciler.extensions.check.bench import Bench, NotChecked, Unmet, path_of
from reconciler.extensions.check.browser import REDIRECTS, Browser
from reconciler.extensions.check.catalog import check
from reconciler.extensions.check.subject import SignInSubject

_AUTHORIZE = "/oauth/authorize"
_NOTES = "notes, Extension providers: `state` single-use and bound to the session, PKCE S256"
_LEAST_STATE = 16
_MOST_STEPS = 8
_SUCCESS = (200,)


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
        raise Unmet(f"the browser is not sent to {settings.auth_url.rstrip('/')}{_AUTHORIZE}")
    given = parse_qs(urlsplit(url).query, keep_blank_values=True)
    return url, {name: values[0] for name, values in given.items()}


async def _consent(bench: Bench, browser: Browser, url: str) -> str:
    """Sign in at the platform's page; the address that the browser is sent back to."""
    answer = await browser.open(url)
    if answer.status == 200:
        answer = await browser.open(url, {"user": _settings(bench).user_id})
    back = browser.location(answer)
    if "code=" not in urlsplit(back).query:
        raise NotChecked("the sign-in service gave no code: does it know the user?")
    return back


async def _finish(browser: Browser, back: str) -> int:
    """Follow the way back to its end; the last status."""
    answer = await browser.open(back)
    for _ in range(_MOST_STEPS):
        if answer.status not in REDIRECTS:
            break
        answer = await browser.open(browser.location(answer))
    return answer.status


@check(
    "sign-in",
    "it begins at the platform",
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


@check("sign-in", "with a `state`", "each sign-in has a `state` of its own, too long to be guessed", _NOTES)
async def with_state(bench: Bench) -> None:
    states = [(await _begin(bench, Browser(bench)))[1].get("state", "") for _ in range(2)]
    if not all(states):
        raise Unmet("`state` is missing: anybody can have a person signed in with another's code")
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
    "who signs in and is of the organization gets to a page (200), and the next time without the platform",
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
        raise Unmet("who is signed in is sent to the platform again")


async def _refused(bench: Bench, browser: Browser, back: str) -> None:
    answer = await browser.open(back)
    if not 400 <= answer.status < 500:
        raise Unmet(f"it is answered {answer.status}")


@check(
    "sign-in", "in another browser", "the way back is refused (4xx) in a browser that did not begin", _NOTES
)
async def in_another_browser(bench: Bench) -> None:
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    await _refused(bench, Browser(bench), back)


@check("sign-in", "with another `state`", "the way back with another `state` is refused (4xx)", _NOTES)
async def with_another_state(bench: Bench) -> None:
    browser = Browser(bench)
    url, given = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    state = given.get("state", "")
    if not state or state not in back:
        raise NotChecked("there is no `state`, which another check tells of")
    await _refused(bench, browser, back.replace(state, "x" * len(state)))


@check("sign-in", "twice the same way back", "the same `state` and code again are refused (4xx)", _NOTES)
async def twice(bench: Bench) -> None:
    browser = Browser(bench)
    url, _ = await _begin(bench, browser)
    back = await _consent(bench, browser, url)
    status = await _finish(browser, back)
    if status not in _SUCCESS:
        raise NotChecked(f"the sign-in ends with {status}, which another check tells of")
    await _refused(bench, browser, back)
