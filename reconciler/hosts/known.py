"""GitHub, GitLab, Gitea and Forgejo: their paths, limits, headers and answers."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from reconciler.hosts.host import Comment, Host, PullRequest, State, text_at
from reconciler.hosts.job import HostName

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

    async def create(self, text: str) -> Comment:
        return await self._post(self._list, {"body": text}, "comment on the pull request")

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

    most = 1_000_000
    most_said = 255
    rights = (
        "give the token of the project the role Developer and the scope `api`. Pipelines of forks get no "
        "masked variables: run them in the parent project"
    )

    @staticmethod
    def headers(token: str) -> Mapping[str, str]:
        return {"private-token": token, "accept": "application/json", "user-agent": "reconcile"}

    async def whoami(self) -> str:
        return text_at(await self._get("/user", "ask who it belongs to"), "username")

    async def create(self, text: str) -> Comment:
        return await self._post(f"{self._request}/notes", {"body": text}, "comment on the merge request")

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
        return f"{self._request}/notes?sort=asc&order_by=created_at"

    def _read(self, item: Any) -> Comment | None:
        id = item.get("id") if isinstance(item, dict) else None
        if not isinstance(id, int) or item.get("system") is True:
            return None
        url = f"{self.job.page}#note_{id}" if self.job.page else ""
        return Comment(id, text_at(item, "body"), text_at(item, "author", "username"), url)


HOSTS: Mapping[HostName, type[Host]] = {"github": GitHub, "gitlab": GitLab, "gitea": Gitea}
