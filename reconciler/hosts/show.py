"""From reports to a comment on a pull request and the status of its commit."""

import html
from collections.abc import Callable, Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.clock import Clock, SystemClock
from reconciler.core.context import BASE, Context
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.hosts.host import HOSTS, State
from reconciler.hosts.job import Job
from reconciler.hosts.publish import Action, Draft, publish
from reconciler.hosts.requests import Requests
from reconciler.project.sections import ENVIRONMENT
from reconciler.reports import verdict
from reconciler.reports.escape import visible
from reconciler.reports.formats.markdown import render_within
from reconciler.reports.report import ApplyReport, DriftReport, Failure, Report
from reconciler.services.transport import HttpTransport

_LONGEST_MESSAGE = 2_000  # characters of a failure's text
_GRAVEST_FIRST: tuple[State, ...] = ("failure", "pending", "success")


class Shown(Struct, frozen=True):
    """The outcome of `show`. `status`: the one that was set; None for none."""

    environment: str
    action: Action
    url: str
    status: State | None


async def show(
    job: Job,
    reports: Sequence[Report],
    *,
    nonce: str,
    env: str = "",
    author: str = "",
    details_url: str = "",
    keeps_history: bool = False,
    sets_status: bool = True,
    clock: Clock | None = None,
    tell: Callable[[str], None] = lambda message: None,
) -> Shown:
    """Publish `reports`, which are about one environment, then set the status of the commit.

    `nonce`, `author`, `keeps_history`: as in `publish`. `env`: the environment of reports that name none.
    `details_url`: page with the full report; "" for none. Raises ReconcilerError.
    """
    clock = clock or SystemClock()
    contexts = [report.about for report in reports if report.about is not None]
    environment = _environment(contexts, env)
    newest = max(contexts, key=lambda context: context.at, default=None)

    def text(most: int, remark: str) -> str:
        return comment_text(reports, details_url, most, remark)

    revision, at = (newest.revision, newest.at) if newest is not None else (None, None)
    draft = Draft(environment, text, revision, at, nonce, keeps_history)
    async with aclosing(HttpTransport(job.api)) as transport:
        host = HOSTS[job.host]
        headers = host.headers(job.token)
        client = host(Requests(transport, job.api, headers, token=job.token, clock=clock, tell=tell), job)
        done = await publish(client, draft, author)
        status = state_of(reports) if sets_status and done.commit else None
        if status is not None:
            said = said_of(reports, client.most_said)
            url = next(filter(is_link, (details_url, done.url)), "")
            try:
                await client.set_status(done.commit, status, f"reconcile/{environment}", said, url)
            except ReconcilerError as failure:
                raise ReconcilerError(
                    f"the comment is written{f' ({done.url})' if done.url else ''}, but no status is set: "
                    f"{failure.message}",
                    help=failure.help or "pass --no-status, or run the same command again",
                ) from None
    return Shown(environment, done.action, done.url, status)


def _environment(contexts: Sequence[Context], given: str) -> str:
    """The only environment of the reports, else the given one. Raises ReconcilerError for several."""
    names = dict.fromkeys([context.environment for context in contexts] + ([given] if given else []))
    if len(names) > 1:
        raise ReconcilerError(
            f"these reports are about several environments: {', '.join(names)}",
            help="run `comment` once for each environment",
        )
    name = next(iter(names), BASE)
    if not ENVIRONMENT.fullmatch(name):
        raise ReconcilerError(f"`{name[:100]}` is not the name of an environment", help="pass --env NAME")
    return name


def comment_text(reports: Sequence[Report], url: str, most: int, remark: str = "") -> str:
    """A comment of at most `most` bytes: the verdict of each report, details as they fit, a link to `url`."""
    before = f"{remark}\n\n" if remark else ""
    after = f'\n<a href="{html.escape(url)}">The full report</a>\n' if is_link(url) else ""
    room = most - len(f"{before}{after}".encode())
    texts = []
    for at, report in enumerate(reports):
        text = render_within(_short(report), room // (len(reports) - at) - 1)
        room -= len(text.encode()) + 1
        texts.append(text)
    return before + "\n".join(texts) + after


def is_link(url: str) -> bool:
    """Whether `url` is safe as a link for people: http or https, without credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and url.isprintable()
        and len(url) < 2_000
    )


def state_of(reports: Sequence[Report]) -> State:
    """The gravest state: "failure" for drift and failures, "pending" for unfinished or undecided steps."""
    return min(map(_state, reports), key=_GRAVEST_FIRST.index, default="success")


def said_of(reports: Sequence[Report], most: int) -> str:
    """The verdict of the gravest report, in at most `most` characters."""
    gravest = min(reports, key=lambda report: _GRAVEST_FIRST.index(_state(report)))
    text = " ".join(visible(" ".join(verdict.of_report(gravest).split())).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _state(report: Report) -> State:
    """The state that one report leads to."""
    if isinstance(report, Failure) or has_errors(report.diagnostics):
        return "failure"
    if isinstance(report, DriftReport):
        return "failure" if report.plan.changes else "success"
    if isinstance(report, ApplyReport):
        outcomes = {result.outcome for result in report.results}
        if "failed" in outcomes or report.ended != "done":
            return "failure"
        return "success" if outcomes <= {"done"} else "pending"
    return "success"


def _short(report: Report) -> Report:
    """`report` with the texts of a failure cut, which nothing else cuts."""
    if not isinstance(report, Failure):
        return report
    return replace(report, message=_cut(report.message), help=_cut(report.help))


def _cut(text: str) -> str:
    """`text`, cut to _LONGEST_MESSAGE characters."""
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"
