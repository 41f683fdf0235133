"""One comment for each environment: made, updated in place, or left alone where it is newer."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from reconciler.core.errors import ReconcilerError
from reconciler.hosts.host import Comment, Host, PullRequest
from reconciler.hosts.marker import Run, is_of, marked, run_of, superseded, text_of
from reconciler.hosts.requests import Unknown

Action = Literal["created", "updated", "unchanged", "stale"]

# After a lost answer: a comment that was made shows at once, or when the host has caught its breath.
_LOOKS_S = (1.0, 3.0, 10.0)
OUTDATED = "**Outdated:** the pull request has newer commits than this report is about."
_CLOCKS = timedelta(minutes=5)  # by which two clocks may differ


class Published(Struct, frozen=True):
    """`url`: of the comment; "" where there is none, or nothing tells.

    `commit`: what a status belongs to; "" where the report is stale, or nobody knows.
    """

    action: Action
    url: str
    commit: str


class Draft(Struct, frozen=True):
    """What is to be published. `text`: within so many bytes, with a remark above it where that is not "".

    `revision`: of the manifests that the report is about; None where git knows none. `at`: when it was made;
    None where it does not say. `nonce`: another one for each run. `keeps_history`: the comment before is
    kept, marked as superseded.
    """

    environment: str
    text: Callable[[int, str], str]
    revision: str | None
    at: datetime | None
    nonce: str
    keeps_history: bool = False


async def publish(host: Host, draft: Draft, author: str = "") -> Published:
    """`author`: who we are at the host; "": it is asked, where that matters. Raises ReconcilerError."""
    return await _Publication(host, draft, author).work()


class _Publication:
    def __init__(self, host: Host, draft: Draft, author: str) -> None:
        self._host, self._draft, self._author = host, draft, author

    async def work(self) -> Published:
        host, job = self._host, self._host.job
        marked_ones = [each for each in await host.comments() if is_of(self._draft.environment, each.body)]
        self._refuse_future()
        ours = await self._ours(marked_ones)
        current = max(ours, key=lambda each: (run_of(each.body).at, each.id)) if ours else None
        commit, outdated = job.commit, False
        if self._must_ask(current):
            pull = await host.pull_request()
            commit = job.commit or (pull.head if self._draft.revision in (pull.merge, None) else "")
            outdated = not self._is_current(pull)
            if outdated and (job.elsewhere or (current and run_of(current.body).commit == pull.head)):
                return Published("stale", current.url if current else "", "")
        commit = commit or self._draft.revision or ""
        run = Run(commit, self._draft.at or self._now, self._draft.nonce)
        if current is not None and self._is_newer(run_of(current.body), run, outdated=outdated):
            return Published("stale", current.url, "")
        remark = OUTDATED if outdated else ""
        body = self._body(run, remark)
        done = await self._write(body, current, ours, marked_ones)
        return Published("stale", done.url, "") if outdated else Published(done.action, done.url, commit)

    @property
    def _now(self) -> datetime:
        """By the clock of the host, which all runs share."""
        return self._host.now or self._host.requests.clock.now()

    def _body(self, run: Run, remark: str) -> str:
        room = self._host.most - len(marked(self._draft.environment, run, "").encode())
        return marked(self._draft.environment, run, self._draft.text(room, remark))

    def _refuse_future(self) -> None:
        """A report from the future would pass for the newest one as long as that lasts."""
        at, now = self._draft.at, self._now
        if at is not None and at > now + _CLOCKS:
            raise ReconcilerError(
                f"the report says that it was made at {at:%Y-%m-%d %H:%M} UTC, but the clock of the git host "
                f"shows {now:%Y-%m-%d %H:%M} UTC; no comment was written",
                help="set the clock of the machine that made the report, and make it again",
            )

    async def _ours(self, marked_ones: Sequence[Comment]) -> list[Comment]:
        if not marked_ones:
            return []
        author = self._author or await self._host.whoami()
        if not author:
            raise ReconcilerError(
                "the git host does not say whom the token belongs to", help="pass --author NAME"
            )
        return [each for each in marked_ones if each.author == author]

    def _must_ask(self, current: Comment | None) -> bool:
        """Whether only the host can say what the head of the pull request is.

        Where there is no comment yet, nothing newer can be lost, and a run for a newer commit replaces ours.
        """
        job, revision = self._host.job, self._draft.revision
        if current is not None or not job.commit or job.elsewhere:
            return True
        return revision is not None and revision not in (job.commit, *job.also)

    def _is_current(self, pull: PullRequest) -> bool:
        """Whether the report is about the head, or about what becomes of it in the base branch.

        Of a job that comes later, what the report itself says proves nothing: a stranger may have written it.
        """
        job, revision = self._host.job, self._draft.revision
        if job.elsewhere:
            return job.commit == pull.head
        if revision in (pull.head, pull.merge) or not pull.head:
            return True
        is_the_jobs = revision is None or revision in (job.commit, *job.also)
        return is_the_jobs and job.commit in ("", pull.head)

    def _is_newer(self, there: Run, ours: Run, *, outdated: bool) -> bool:
        """Whether the comment `there` must stay. A time that has not come yet says nothing."""
        if there.at > self._now + _CLOCKS:
            return False
        if there.commit and there.commit != ours.commit and not outdated:
            return False  # ours is about the head
        return there.at > ours.at

    async def _write(
        self, body: str, current: Comment | None, ours: Sequence[Comment], marked_ones: Sequence[Comment]
    ) -> Published:
        """`ours`: those of `marked_ones` that we wrote; more than one where two runs met."""
        others = [each for each in ours if each is not current]
        if current is not None and _says_the_same(current.body, body):
            await self._supersede(others)
            return Published("unchanged", current.url, "")
        if current is not None and not self._draft.keeps_history:
            updated = await self._host.update(current, body)
            if updated is not None:
                await self._supersede(others)
                return Published("updated", updated.url, "")
            marked_ones = [each for each in marked_ones if each is not current]
        made = await self._create(body)
        # By its author we know again what else is ours, even where the host could not be asked for our name.
        await self._supersede([each for each in marked_ones if each.author == made.author != ""])
        return Published("created", made.url, "")

    async def _supersede(self, comments: Sequence[Comment]) -> None:
        for each in comments:
            await self._host.update(each, superseded(self._draft.environment, each.body))

    async def _create(self, body: str) -> Comment:
        """Never sent twice: after a lost answer, the comment is looked for."""
        try:
            return await self._host.create(body)
        except Unknown as lost:
            for pause_s in _LOOKS_S:
                await self._host.requests.clock.sleep(pause_s)
                for each in await self._host.comments():
                    if is_of(self._draft.environment, each.body) and run_of(each.body) == run_of(body):
                        return each
            raise ReconcilerError(
                f"it is not known whether the comment was written: {lost.message}",
                help="run the same command again: it looks for the comment before it writes one",
            ) from None


def _says_the_same(there: str, body: str) -> bool:
    return text_of(there) == text_of(body) and run_of(there).commit == run_of(body).commit
