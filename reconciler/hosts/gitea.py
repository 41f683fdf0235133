"""Gitea and Forgejo, whose API is GitHub's in what is needed here. Source: Gitea's description, 1.27.3."""

from collections.abc import Mapping

from reconciler.hosts.github import GitHub
from reconciler.hosts.host import text_at


class Gitea(GitHub):
    """It documents no limits; those of GitHub keep pages readable. A job's token has a user of its own."""

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
