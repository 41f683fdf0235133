"""GitHub. Source: its REST API description, version 2022-11-28."""

from collections.abc import Mapping
from typing import Any

from reconciler.hosts.host import Comment, Host, PullRequest, State, text_at

ACTIONS = "github-actions[bot]"  # whom the token of a job acts as
_OF_AN_APP = "ghs_"  # begins the tokens of apps, that of a job among them: they have no user to ask for


class GitHub(Host):
    """The limit of a comment is 65,536 characters, that of a status 140."""

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
        body = {"state": state, "context": context, "description": said} | (
            {"target_url": url} if url else {}
        )
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
