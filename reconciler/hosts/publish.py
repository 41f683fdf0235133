"""A report at a git host: one comment for each environment, and the status of the commit.

A comment is created, updated in place, or left alone where it is newer.

A comment begins with marks that no reader sees: its environment, and the run that wrote it. Nothing else in a
comment can be such a mark: texts of manifests and of the platform stand in `<code>` with `<` escaped, and
only the beginning of a comment counts.
"""

import html
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.clock import Clock, SystemClock
from reconciler.core.context import BASE, Context
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.hosts.host import HOSTS, Comment, Host, PullRequest, State
from reconciler.hosts.job import Job
from reconciler.hosts.requests import Requests, Unknown
from reconciler.project.sections import ENVIRONMENT
from reconciler.reports import verdict
from reconciler.reports.escape import visible
from reconciler.reports.formats.markdown import render_within
from reconciler.reports.report import ApplyReport, DriftReport, Failure, Report
from reconciler.services.transport import HttpTransport

Action = Literal["created", "updated", "unchanged", "stale"]

# Pauses before a comment is looked for after a lost answer: it shows at once, or when the host has recovered.
_LOOKS_S = (1.0, 3.0, 10.0)
OUTDATED = "**Outdated:** the pull request has newer commits than this report is about."
_CLOCKS = timedelta(minutes=5)  # the largest expected difference of two clocks
_RUN = re.compile(
    r"<!-- reconcile-run: commit=(?P<commit>[0-9a-f]{7,64}|-) at=(?P<at>\S{1,40}) "
    r"nonce=(?P<nonce>[0-9a-f]{1,64}) -->"
)


class Run(Struct, frozen=True):
    """The run that wrote a comment. `commit`: the one of the report; "" where it is unknown.

    `at`: when the report was made. `nonce`: different for each run. It identifies a comment whose answer was
    lost.
    """

    commit: str
    at: datetime
    nonce: str


UNREAD = Run("", datetime.fromtimestamp(0, UTC), "")  # of a comment without such a mark: any run is newer


def mark_of(environment: str) -> str:
    """The first line of every comment about `environment`."""
    return f"<!-- reconcile:{environment} -->"


def marked(environment: str, run: Run, text: str) -> str:
    """The body of a comment about `environment`: both marks, then `text`."""
    about = f"commit={run.commit or '-'} at={run.at.astimezone(UTC).isoformat()} nonce={run.nonce}"
    return f"{mark_of(environment)}\n<!-- reconcile-run: {about} -->\n{text}"


def is_of(environment: str, body: str) -> bool:
    """Whether a comment with this body is about `environment`."""
    return body.startswith(mark_of(environment))


def run_of(body: str) -> Run:
    """The run that wrote `body`; UNREAD where the mark is missing or not valid."""
    found = _RUN.fullmatch((body.splitlines()[1:2] or [""])[0])
    if found is None:
        return UNREAD
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return UNREAD
    commit = "" if found["commit"] == "-" else found["commit"]
    return Run(commit, at if at.tzinfo else at.replace(tzinfo=UTC), found["nonce"])


def text_of(body: str) -> str:
    """The visible text of `body`. Hosts may have trimmed it, or changed its line ends."""
    lines = body.splitlines()
    return "\n".join(lines[2:] if len(lines) > 1 and _RUN.fullmatch(lines[1]) else lines[1:]).strip()


def superseded(environment: str, body: str) -> str:
    """`body` as a comment of the past: collapsed, and with a mark that no run looks for."""
    return (
        f"<!-- reconcile:{environment} superseded -->\n"
        f"<details><summary>Superseded by a newer comment</summary>\n\n{text_of(body)}\n\n</details>\n"
    )


class Published(Struct, frozen=True):
    """The outcome. `url`: of the comment; "" where there is none, or the host does not give it.

    `commit`: the one to set a status on; "" where the report is stale, or the commit unknown.
    """

    action: Action
    url: str
    commit: str


class _Publication(Struct, frozen=True):
    """One comment on its way: finds ours, decides whether it is newer, writes.

    `text`: makes it, given its limit in bytes and a remark to put above it. `revision`: of the report's
    manifests; None where git knows none. `at`: when the report was made; None where it does not say. `nonce`:
    as in `Run`. `author`: our name at the host; "": the host is asked. `keeps_history`: the earlier comment
    stays, marked as superseded.
    """

    host: Host
    environment: str
    text: Callable[[int, str], str]
    revision: str | None
    at: datetime | None
    nonce: str
    author: str
    keeps_history: bool

    async def publish(self) -> Published:
        """Write the comment. The outcome is "stale" where a newer comment or commit stands.

        Raises ReconcilerError.
        """
        host, job = self.host, self.host.job
        comments = await host.comments()
        marked_ones = [comment for comment in comments if is_of(self.environment, comment.body)]
        self._refuse_future()
        ours = await self._ours(marked_ones)
        current = max(ours, key=lambda comment: (run_of(comment.body).at, comment.id)) if ours else None
        commit, outdated = job.commit, False
        if self._must_ask(current):
            pull = await host.pull_request()
            commit = job.commit or (pull.head if self.revision in (pull.merge, None) else "")
            outdated = not self._is_current(pull)
            if outdated and (job.runs_later or (current and run_of(current.body).commit == pull.head)):
                return Published("stale", current.url if current else "", "")
        commit = commit or self.revision or ""
        run = Run(commit, self.at or self._now, self.nonce)
        if current is not None and self._is_newer(run_of(current.body), run, outdated=outdated):
            return Published("stale", current.url, "")
        body = self._body(run, OUTDATED if outdated else "")
        done = await self._write(body, current, ours, marked_ones)
        return Published("stale", done.url, "") if outdated else Published(done.action, done.url, commit)

    @property
    def _now(self) -> datetime:
        """The time by the clock of the host, which all runs share."""
        return self.host.now or self.host.requests.clock.now()

    def _body(self, run: Run, remark: str) -> str:
        """The body of the comment, within the limit of the host, with `remark` above its text."""
        room = self.host.most - len(marked(self.environment, run, "").encode())
        return marked(self.environment, run, self.text(room, remark))

    def _refuse_future(self) -> None:
        """Raises ReconcilerError for a report from the future: it would stay the newest until then."""
        at, now = self.at, self._now
        if at is not None and at > now + _CLOCKS:
            raise ReconcilerError(
                f"the report says that it was made at {at:%Y-%m-%d %H:%M} UTC, but the clock of the git host "
                f"shows {now:%Y-%m-%d %H:%M} UTC; no comment was written",
                help="set the clock of the machine that made the report, and make it again",
            )

    async def _ours(self, marked_ones: Sequence[Comment]) -> list[Comment]:
        """The comments that we wrote. Others may have copied the marks."""
        if not marked_ones:
            return []
        author = self.author or await self.host.whoami()
        if not author:
            raise ReconcilerError(
                "the git host does not say whom the token belongs to", help="pass --author NAME"
            )
        return [comment for comment in marked_ones if comment.author == author]

    def _must_ask(self, current: Comment | None) -> bool:
        """Whether only the host can say what the head of the pull request is.

        Without a comment nothing newer can be lost, and a run for a newer commit replaces ours.
        """
        job, revision = self.host.job, self.revision
        if current is not None or not job.commit or job.runs_later:
            return True
        return revision is not None and revision not in (job.commit, *job.also)

    def _is_current(self, pull: PullRequest) -> bool:
        """Whether the report is about the head, or about its merge into the base branch.

        In a job that comes later, the report itself proves nothing: a stranger may have written it.
        """
        job, revision = self.host.job, self.revision
        if job.runs_later:
            return job.commit == pull.head
        if revision in (pull.head, pull.merge) or not pull.head:
            return True
        is_the_jobs = revision is None or revision in (job.commit, *job.also)
        return is_the_jobs and job.commit in ("", pull.head)

    def _is_newer(self, there: Run, ours: Run, *, outdated: bool) -> bool:
        """Whether the comment of the run `there` must stay. A time in the future says nothing."""
        if there.at > self._now + _CLOCKS:
            return False
        if there.commit and there.commit != ours.commit and not outdated:
            return False  # ours is about the head
        return there.at > ours.at

    async def _write(
        self, body: str, current: Comment | None, ours: Sequence[Comment], marked_ones: Sequence[Comment]
    ) -> Published:
        """`ours`: those of `marked_ones` that we wrote. After two runs at once there are several."""
        others = [comment for comment in ours if comment is not current]
        if current is not None and _says_the_same(current.body, body):
            await self._supersede(others)
            return Published("unchanged", current.url, "")
        if current is not None and not self.keeps_history:
            updated = await self.host.update(current, body)
            if updated is not None:
                await self._supersede(others)
                return Published("updated", updated.url, "")
            marked_ones = [comment for comment in marked_ones if comment is not current]
        made = await self._create(body)
        # Its author is our name, so it shows which others are ours, even where the host could not be asked.
        await self._supersede([comment for comment in marked_ones if comment.author == made.author != ""])
        return Published("created", made.url, "")

    async def _supersede(self, comments: Sequence[Comment]) -> None:
        """Mark earlier comments as superseded."""
        for comment in comments:
            await self.host.update(comment, superseded(self.environment, comment.body))

    async def _create(self, body: str) -> Comment:
        """The new comment. It is never sent twice: after a lost answer, it is looked for."""
        try:
            return await self.host.create(body)
        except Unknown as lost:
            for pause_s in _LOOKS_S:
                await self.host.requests.clock.sleep(pause_s)
                for comment in await self.host.comments():
                    if is_of(self.environment, comment.body) and run_of(comment.body) == run_of(body):
                        return comment
            raise ReconcilerError(
                f"it is not known whether the comment was written: {lost.message}",
                help="run the same command again: it looks for the comment before it writes one",
            ) from None


def _says_the_same(there: str, body: str) -> bool:
    """Whether two bodies have the same text and commit."""
    return text_of(there) == text_of(body) and run_of(there).commit == run_of(body).commit


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

    `nonce`, `author`, `keeps_history`: as in `_Publication`. `env`: of reports that name no environment.
    `details_url`: page with the full report; "" for none. Raises ReconcilerError.
    """
    clock = clock or SystemClock()
    contexts = [report.about for report in reports if report.about is not None]
    environment = _environment(contexts, env)
    newest = max(contexts, key=lambda context: context.at, default=None)

    def text(most: int, remark: str) -> str:
        return comment_text(reports, details_url, most, remark)

    revision, at = (newest.revision, newest.at) if newest is not None else (None, None)
    async with aclosing(HttpTransport(job.api)) as transport:
        host = HOSTS[job.host]
        headers = host.headers(job.token)
        client = host(Requests(transport, job.api, headers, token=job.token, clock=clock, tell=tell), job)
        comment = _Publication(client, environment, text, revision, at, nonce, author, keeps_history)
        done = await comment.publish()
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
