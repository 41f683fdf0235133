"""GitLab. Source: its REST API, version 4: notes of merge requests, commit statuses, users."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from reconciler.hosts.host import Comment, Host, PullRequest, State, text_at

_STATES: Mapping[State, str] = {"success": "success", "failure": "failed", "pending": "pending"}
_NO_CHANGE = "cannot transition status"  # what it says where the status is what it should become


class GitLab(Host):
    """The limit of a note is 1,000,000 characters, that of a status 255."""

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
        body = {"state": _STATES[state], "name": context, "description": said}
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
