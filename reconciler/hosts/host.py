"""Git hosts: comments on a pull request, its head, and statuses of commits.

`Host` has what all of them need. GitHub, GitLab, Gitea and Forgejo differ in paths, limits, headers and
answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from msgspec import Struct

from reconciler.core.errors import ReconcilerError
from reconciler.hosts.job import HostName, Job
from reconciler.hosts.requests import HostRefused, Method, Requests
from reconciler.services.outcome import parsed
from reconciler.services.retry import time_of
from reconciler.services.transport import Answer

State = Literal["success", "failure", "pending"]
PER_PAGE = 100
MOST_PAGES = 200


class Comment(Struct, frozen=True):
    """A comment on a pull request. `url`: its page; "" where it is unknown."""

    id: int
    body: str
    author: str
    url: str = ""


class PullRequest(Struct, frozen=True):
    """`head`: its newest commit. `merge`: the commit that merges it into the base branch; "" for none."""

    head: str
    merge: str = ""


class Host(ABC):
    """One pull request at one host. All methods raise ReconcilerError.

    `request`: what the host calls it. `most`: limit of a comment in bytes, below the host's own, which counts
    characters. `most_said`: limit of a status in characters. `paging`: parameters of a list, the last one for
    the size of a page. `rights`: help for a token that may not do something.
    """

    request: ClassVar[str] = "pull request"
    most: ClassVar[int]
    most_said: ClassVar[int]
    paging: ClassVar[str] = "per_page"
    rights: ClassVar[str]

    def __init__(self, requests: Requests, job: Job) -> None:
        self.requests, self.job = requests, job
        self.now: datetime | None = None  # by the host's clock, as of the last list of comments

    @staticmethod
    @abstractmethod
    def headers(token: str) -> Mapping[str, str]:
        """The headers of every request."""

    @abstractmethod
    async def whoami(self) -> str:
        """Our user name, as the author of our comments."""

    @abstractmethod
    async def update(self, comment: Comment, text: str) -> Comment | None:
        """Replace the text of a comment; None where it no longer exists."""

    @abstractmethod
    async def pull_request(self) -> PullRequest:
        """The pull request as the host has it now."""

    @abstractmethod
    async def set_status(self, commit: str, state: State, context: str, said: str, url: str) -> None:
        """Set the status of a commit. The last one counts, so a repetition has no effect."""

    @property
    @abstractmethod
    def _list(self) -> str:
        """The path of the list of comments."""

    @abstractmethod
    def _read(self, item: Any) -> Comment | None:
        """The comment in an item of a list or in an answer; None for system notes and other JSON."""

    async def comments(self) -> list[Comment]:
        """All comments, in the order of the host: oldest first."""
        found: dict[int, Comment] = {}
        for page in range(1, MOST_PAGES + 1):
            answer = await self.requests.send("GET", f"{self._list}?{self.paging}={PER_PAGE}&page={page}")
            items = self._checked(answer, "read the comments of the pull request", list)
            self.now = time_of(answer, self.requests.clock)
            fresh = [comment for comment in self._comments(items) if comment.id not in found]
            found.update((comment.id, comment) for comment in fresh)
            # A host without pages answers every page with the same comments.
            if not _has_next(answer, len(items)) or (page > 1 and not fresh):
                return list(found.values())
        raise ReconcilerError(f"the pull request has more than {MOST_PAGES * PER_PAGE} comments")

    def _comments(self, items: list[Any]) -> Iterator[Comment]:
        """The comments among the items of one page."""
        yield from filter(None, map(self._read, items))

    async def _get(self, path: str, what: str) -> Mapping[str, Any]:
        """The JSON object at `path`. `what`: the action, for messages."""
        found: Mapping[str, Any] = self._checked(await self.requests.send("GET", path), what, dict)
        return found

    async def create(self, text: str) -> Comment:
        """Write a new comment. Raises Unknown where it may exist nevertheless."""
        answer = await self.requests.send_once(self._list, {"body": text})
        return self._written(answer, f"comment on the {self.request}")

    async def _set(self, method: Method, path: str, body: Mapping[str, Any], what: str) -> Comment | None:
        """The comment after a write; None where it no longer exists."""
        answer = await self.requests.send(method, path, body)
        return None if answer.status in (404, 410) else self._written(answer, what)

    def _written(self, answer: Answer, what: str) -> Comment:
        """The comment in the answer to a write."""
        found = self._read(self._checked(answer, what, dict))
        if found is None:
            raise ReconcilerError(f"the git host's answer is not the comment that was asked to {what}")
        return found

    def _checked(self, answer: Answer, what: str, shape: type) -> Any:
        """The JSON of a success. Raises HostRefused, or ReconcilerError for another `shape`."""
        if answer.status >= 300:
            raise self._refusal(answer, what)
        found = parsed(answer.body)
        if not isinstance(found, shape):
            raise ReconcilerError(
                f"what answers at {self.job.api} is not the API of {self.job.host}",
                help="check --host and --api, and what stands between",
            )
        return found

    def _refusal(self, answer: Answer, what: str) -> HostRefused:
        """The error for an answer other than a success, with the way out where it is known."""
        status, said = answer.status, self.requests.said(answer)
        because = f": {said}" if said else ""
        where = f"{self.job.repository}#{self.job.number}"
        if status == 401:
            message = f"{self.job.host} does not know the token in {self.job.token_variable}{because}"
            return HostRefused(message, status, help="it may have expired: put a new one into that variable")
        if status == 403:
            message = f"the token in {self.job.token_variable} may not {what}{because}"
            return HostRefused(message, status, help=self.rights)
        if status == 404:
            message = f"{self.job.host} shows no {where} to the token in {self.job.token_variable}{because}"
            return HostRefused(
                message, status, help="check --repository and --pull-request, and what the token may read"
            )
        if status < 400:
            message = f"{self.job.host} says that {self.job.repository} is elsewhere now (HTTP {status})"
            return HostRefused(message, status, help="pass --repository with its new name")
        return HostRefused(f"{self.job.host} refused to {what} (HTTP {status}){because}", status)


def _has_next(answer: Answer, items: int) -> bool:
    """Whether there is another page. Hosts say so in headers; without them, a full page means yes."""
    if "link" in answer.headers:
        return 'rel="next"' in answer.headers["link"]
    if "x-next-page" in answer.headers:
        return bool(answer.headers["x-next-page"].strip())
    return items >= PER_PAGE


def text_at(value: Any, *keys: str) -> str:
    """The text at `keys` of a JSON value; "" for none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


# --- the hosts ---

ACTIONS = "github-actions[bot]"  # the user that the token of a job acts as
_OF_AN_APP = "ghs_"  # prefix of the tokens of apps and jobs, which have no user to ask for
GITLAB_STATES: Mapping[State, str] = {"success": "success", "failure": "failed", "pending": "pending"}
_NO_CHANGE = "cannot transition status"  # GitLab's answer where the status is already the wanted one


class GitHub(Host):
    """GitHub. A comment has at most 65,536 characters, a status 140.

    Source: its REST API description, version 2022-11-28.
    """

    most = 65_000
    most_said = 140
    rights = (
        "give the job `permissions: pull-requests: write, statuses: write`. For a pull request from a fork "
        "the token can only read: let a workflow on `workflow_run` comment from the report, which the first "
        "one keeps as an artifact; a workflow with rights must never run what the fork contains"
    )

    @staticmethod
    def headers(token: str) -> Mapping[str, str]:
        return {
            "authorization": f"Bearer {token}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
            "user-agent": "reconcile",
        }

    async def whoami(self) -> str:
        if self.job.token.startswith(_OF_AN_APP):
            return ACTIONS
        answer = await self.requests.send("GET", "/user")
        if answer.status == 403:  # another token of an app
            return ACTIONS
        return text_at(self._checked(answer, "ask who it belongs to", dict), "login")

    async def update(self, comment: Comment, text: str) -> Comment | None:
        path = f"{self._repository}/issues/comments/{comment.id}"
        return await self._set("PATCH", path, {"body": text}, "change its comment")

    async def pull_request(self) -> PullRequest:
        found = await self._get(f"{self._repository}/pulls/{self.job.number}", "read the pull request")
        return PullRequest(text_at(found, "head", "sha"), text_at(found, "merge_commit_sha"))

    async def set_status(self, commit: str, state: State, context: str, said: str, url: str) -> None:
        body = {"state": state, "context": context, "description": said}
        body |= {"target_url": url} if url else {}
        answer = await self.requests.send("POST", f"{self._repository}/statuses/{commit}", body)
        self._checked(answer, "set the status of the commit", dict)

    @property
    def _repository(self) -> str:
        return f"/repos/{self.job.repository}"

    @property
    def _list(self) -> str:
        return f"{self._repository}/issues/{self.job.number}/comments"

    def _read(self, item: Any) -> Comment | None:
        id = item.get("id") if isinstance(item, dict) else None
        if not isinstance(id, int):
            return None
        return Comment(id, text_at(item, "body"), text_at(item, "user", "login"), text_at(item, "html_url"))


class Gitea(GitHub):
    """Gitea and Forgejo, whose API equals GitHub's in all that is needed here.

    They document no limits; those of GitHub keep pages readable. The token of a job has a user of its own.
    Source: Gitea's API description, 1.27.3.
    """

    paging = "limit"
    rights = (
        "give the token the rights `issue: write` and `repository: write`. For a pull request from a fork "
        "the token of a job can only read"
    )

    @staticmethod
    def headers(token: str) -> Mapping[str, str]:
        return {"authorization": f"token {token}", "accept": "application/json", "user-agent": "reconcile"}

    async def whoami(self) -> str:
        return text_at(await self._get("/user", "ask who it belongs to"), "login")


class GitLab(Host):
    """GitLab. A note has at most 1,000,000 characters, a status 255.

    Source: its REST API, version 4: notes of merge requests, commit statuses, users.
    """

    request = "merge request"
    most = 1_000_000
    most_said = 255
    paging = "sort=asc&order_by=created_at&per_page"
    rights = (
        "give the token of the project the role Developer and the scope `api`. Pipelines of forks get no "
        "masked variables: run them in the parent project"
    )

    @staticmethod
    def headers(token: str) -> Mapping[str, str]:
        return {"private-token": token, "accept": "application/json", "user-agent": "reconcile"}

    async def whoami(self) -> str:
        return text_at(await self._get("/user", "ask who it belongs to"), "username")

    async def update(self, comment: Comment, text: str) -> Comment | None:
        path = f"{self._request}/notes/{comment.id}"
        return await self._set("PUT", path, {"body": text}, "change its comment")

    async def pull_request(self) -> PullRequest:
        found = await self._get(self._request, "read the merge request")
        merge = text_at(found, "squash_commit_sha") or text_at(found, "merge_commit_sha")
        return PullRequest(text_at(found, "sha"), merge)

    async def set_status(self, commit: str, state: State, context: str, said: str, url: str) -> None:
        body = {"state": GITLAB_STATES[state], "name": context, "description": said}
        body |= {"target_url": url} if url else {}
        answer = await self.requests.send("POST", f"{self._project}/statuses/{commit}", body)
        if answer.status == 400 and _NO_CHANGE in self.requests.said(answer).lower():
            return
        self._checked(answer, "set the status of the commit", dict)

    @property
    def _project(self) -> str:
        return f"/projects/{quote(self.job.repository, safe='')}"

    @property
    def _request(self) -> str:
        return f"{self._project}/merge_requests/{self.job.number}"

    @property
    def _list(self) -> str:
        return f"{self._request}/notes"

    def _read(self, item: Any) -> Comment | None:
        id = item.get("id") if isinstance(item, dict) else None
        if not isinstance(id, int) or item.get("system") is True:
            return None
        url = f"{self.job.page}#note_{id}" if self.job.page else ""
        return Comment(id, text_at(item, "body"), text_at(item, "author", "username"), url)


HOSTS: Mapping[HostName, type[Host]] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}
