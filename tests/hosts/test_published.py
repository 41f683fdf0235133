"""The doubles hold requests, and their own answers, to what the hosts publish: mistakes are caught."""

from typing import Any

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.hosts.host import GITLAB_STATES, GitLab
from reconciler.hosts.requests import Requests
from tests.hosts import doubles
from tests.hosts.doubles import NUMBER, REPOSITORY, serving
from tests.hosts.published import completed, problems_of_answer, published
from tests.hosts.test_publish import each_host, plan, shown

_GITHUB = f"/repos/{REPOSITORY}"
_GITLAB = "/projects/acme%2Fshop"


@pytest.mark.parametrize(
    ("host", "method", "path"),
    [
        ("github", "GET", f"{_GITHUB}/pulls/{NUMBER}/comments"),
        ("github", "PUT", f"{_GITHUB}/issues/comments/1"),
        ("github", "POST", f"{_GITHUB}/issues/comments"),
        ("gitlab", "GET", f"/projects/acme/shop/merge_requests/{NUMBER}/notes"),
        ("gitlab", "PATCH", f"{_GITLAB}/merge_requests/{NUMBER}/notes/1"),
        ("gitlab", "GET", f"{_GITLAB}/merge_request/{NUMBER}/notes"),
        ("gitea", "POST", f"{_GITHUB}/commits/abc/statuses"),
        ("gitea", "GET", "/users"),
    ],
)
def test_a_path_that_is_not_published_is_caught(host: str, method: str, path: str) -> None:
    assert published(host).operation(method, path) is None


@pytest.mark.parametrize(
    ("host", "method", "path", "query", "body", "problem"),
    [
        ("github", "POST", "/issues/7/comments", {}, {"text": "x"}, "'body' is a required property"),
        ("github", "POST", "/issues/7/comments", {}, {"body": "x", "env": 1}, "'env' was unexpected"),
        ("github", "POST", "/issues/7/comments", {}, None, "None is not of type 'object'"),
        ("github", "POST", "/statuses/abc", {}, {"state": "failed"}, "'failed' is not one of"),
        ("github", "POST", "/statuses/abc", {}, {"state": "error", "name": "x"}, "'name' was unexpected"),
        ("github", "GET", "/issues/7/comments", {"limit": "100"}, None, "`limit`, which is not described"),
        ("github", "GET", "/issues/7/comments", {"page": "two"}, None, "'two' is not of type 'integer'"),
        ("github", "GET", "/issues/x/comments", {}, None, "'x' is not of type 'integer'"),
        ("github", "GET", "/issues/7/comments", {}, {"page": 2}, "it has a body"),
        ("gitea", "POST", "/statuses/abc", {}, {"status": "success"}, "'status' was unexpected"),
        ("gitea", "GET", "/issues/7/comments", {"per_page": "9"}, None, "`per_page`, which is not described"),
    ],
)
def test_a_request_that_is_not_as_published_is_caught(
    host: str, method: str, path: str, query: dict[str, str], body: Any, problem: str
) -> None:
    described = published(host)
    operation = described.operation(method, f"{_GITHUB}{path}")
    assert operation is not None
    assert problem in " ".join(described.problems_of_request(operation, f"{_GITHUB}{path}", query, body))


@each_host
def test_a_wrong_name_in_a_body_fails_the_test_that_sent_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end, whatever the code under test made of the refusal."""
    once = Requests.send_once

    async def misnamed(self: Any, path: str, body: Any) -> Any:
        return await once(self, path, {"text": body["body"]})

    monkeypatch.setattr(Requests, "send_once", misnamed)
    with (
        pytest.raises(AssertionError, match="'text' was unexpected"),
        serving(kind) as world,
        pytest.raises(ReconcilerError, match="HTTP 400"),
    ):
        shown(world, plan())


def test_a_wrong_path_and_a_wrong_word_fail_the_test_that_sent_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GitLab, "_list", "/projects/42/notes")
    with (
        pytest.raises(AssertionError, match="/projects/42/notes is not described"),
        serving("gitlab") as world,
        pytest.raises(ReconcilerError),
    ):
        shown(world, plan())
    monkeypatch.undo()
    monkeypatch.setitem(GITLAB_STATES, "success", "passed")
    with (
        pytest.raises(AssertionError, match="'passed' is not one of"),
        serving("gitlab") as world,
        pytest.raises(ReconcilerError),
    ):
        shown(world, plan())


def test_a_double_that_answers_something_else_fails_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubles, "_github", lambda world, comment: {"number": comment.id})
    with (
        pytest.raises(AssertionError, match="'number' was unexpected"),
        serving("github") as world,
        pytest.raises(ReconcilerError),
    ):
        shown(world, plan())


def test_answers_have_all_that_is_required() -> None:
    operation = published("github").operation("GET", f"{_GITHUB}/pulls/7")
    assert operation is not None
    given = {"number": 7, "head": {"sha": "a" * 40}, "merge_commit_sha": None}
    assert len(list(problems_of_answer(operation, 200, given))) > 10
    whole = completed(operation, 200, given)
    assert list(problems_of_answer(operation, 200, whole)) == []
    assert whole["head"]["sha"] == "a" * 40
