"""What `comment` does: from reports to a comment and a status."""

from collections.abc import Callable, Sequence
from contextlib import aclosing

from msgspec import Struct

from reconciler.core.clock import Clock, SystemClock
from reconciler.core.context import BASE, Context
from reconciler.core.errors import ReconcilerError
from reconciler.hosts.gitea import Gitea
from reconciler.hosts.github import GitHub
from reconciler.hosts.gitlab import GitLab
from reconciler.hosts.host import Host, State
from reconciler.hosts.job import HostName, Job
from reconciler.hosts.publish import Action, Draft, publish
from reconciler.hosts.requests import Requests
from reconciler.hosts.text import comment_text, is_link, said_of, state_of
from reconciler.project.sections import ENVIRONMENT
from reconciler.reports.report import Report
from reconciler.services.transport import HttpTransport

_HOSTS: dict[HostName, type[Host]] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}


class Shown(Struct, frozen=True):
    """`status`: that was set; None for none."""

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
    """Publish `reports`, which are about one environment. Raises ReconcilerError."""
    clock = clock or SystemClock()
    contexts = [each.about for each in reports if each.about is not None]
    environment = _environment(contexts, env)
    newest = max(contexts, key=lambda each: each.at, default=None)

    def text(most: int, remark: str) -> str:
        return comment_text(reports, details_url, most, remark)

    revision, at = (newest.revision, newest.at) if newest is not None else (None, None)
    draft = Draft(environment, text, revision, at, nonce, keeps_history)
    async with aclosing(HttpTransport(job.api)) as transport:
        host = _HOSTS[job.host]
        requests = Requests(
            transport, job.api, host.headers(job.token), token=job.token, clock=clock, tell=tell
        )
        client = host(requests, job)
        done = await publish(client, draft, author)
        status = state_of(reports) if sets_status and done.commit else None
        if status is not None:
            await _set_status(client, done.commit, status, environment, reports, details_url, done.url)
        return Shown(environment, done.action, done.url, status)


def _environment(contexts: Sequence[Context], given: str) -> str:
    names = dict.fromkeys([each.environment for each in contexts] + ([given] if given else []))
    if len(names) > 1:
        raise ReconcilerError(
            f"these reports are about several environments: {', '.join(names)}",
            help="run `comment` once for each environment",
        )
    name = next(iter(names), BASE)
    if not ENVIRONMENT.fullmatch(name):
        raise ReconcilerError(f"`{name[:100]}` is not the name of an environment", help="pass --env NAME")
    return name


async def _set_status(
    client: Host,
    commit: str,
    state: State,
    environment: str,
    reports: Sequence[Report],
    details_url: str,
    comment_url: str,
) -> None:
    said = said_of(reports, client.most_said)
    url = next(filter(is_link, (details_url, comment_url)), "")
    try:
        await client.set_status(commit, state, f"reconcile/{environment}", said, url)
    except ReconcilerError as failure:
        raise ReconcilerError(
            f"the comment is written{f' ({comment_url})' if comment_url else ''}, but no status is set: "
            f"{failure.message}",
            help=failure.help or "pass --no-status, or run the same command again",
        ) from None
