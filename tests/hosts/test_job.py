"""What the variables of CI say, what options override, and what is told where neither says enough."""

import json
import re
from typing import Any

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.hosts.job import Given, job_of
from tests.hosts.doubles import HEAD, MERGE

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "acme/shop",
    "GITHUB_REF": "refs/pull/7/merge",
    "GITHUB_SHA": MERGE,
    "GITHUB_RUN_ID": "99",
    "GITHUB_TOKEN": "token",
}
GITLAB = {
    "GITLAB_CI": "true",
    "CI_API_V4_URL": "https://gitlab.example/api/v4",
    "CI_PROJECT_ID": "42",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example/acme/shop",
    "CI_COMMIT_SHA": MERGE,
    "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD,
    "CI_JOB_URL": "https://gitlab.example/acme/shop/-/jobs/1",
    "GITLAB_TOKEN": "token",
}
GITEA = {
    **GITHUB,
    "GITEA_ACTIONS": "true",
    "GITHUB_API_URL": "https://git.example/api/v1",
    "GITEA_TOKEN": "own",
}
NONE = Given()


def event(**content: Any) -> bytes:
    return json.dumps(content).encode()


def without(variables: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in names}


def test_github_says_all_of_it() -> None:
    job = job_of(GITHUB, event(pull_request={"number": 7, "head": {"sha": HEAD}}), NONE)
    assert (job.host, job.api, job.repository, job.number) == (
        "github", "https://api.github.com", "acme/shop", 7
    )  # fmt: skip
    assert (job.commit, job.also, job.runs_later) == (HEAD, frozenset({MERGE}), False)
    assert job.run_url == "https://github.com/acme/shop/actions/runs/99"
    assert "token" not in repr(job).replace("token_variable='GITHUB_TOKEN'", "")


def test_without_its_event_the_ref_has_the_number_and_nothing_the_head() -> None:
    job = job_of(GITHUB, b"", NONE)
    assert (job.number, job.commit) == (7, "")
    assert job_of(GITHUB, b"{broken", NONE) == job


def test_a_run_that_follows_another_says_which_commit_that_was_about() -> None:
    after = {**GITHUB, "GITHUB_REF": "refs/heads/main"}
    own = event(workflow_run={"head_sha": HEAD, "pull_requests": [{"number": 8}]})
    job = job_of(after, own, NONE)
    assert (job.number, job.commit, job.also, job.runs_later) == (8, HEAD, frozenset(), True)
    fork = event(workflow_run={"head_sha": HEAD, "pull_requests": []})
    with pytest.raises(ReconcilerError, match="about no pull request") as refused:
        job_of(after, fork, NONE)
    assert "--pull-request" in refused.value.help
    assert job_of(after, fork, Given(number=9)).number == 9


def test_a_comment_on_a_pull_request_is_about_it_and_one_on_an_issue_is_not() -> None:
    variables = {**GITHUB, "GITHUB_REF": "refs/heads/main"}
    assert job_of(variables, event(issue={"number": 5, "pull_request": {}}), NONE).number == 5
    with pytest.raises(ReconcilerError, match="GITHUB_REF"):
        job_of(variables, event(issue={"number": 5}), NONE)


def test_gitlab_says_all_of_it() -> None:
    job = job_of(GITLAB, b"", NONE)
    assert (job.host, job.api, job.repository, job.number) == (
        "gitlab", "https://gitlab.example/api/v4", "42", 7
    )  # fmt: skip
    assert (job.commit, job.also) == (HEAD, frozenset({MERGE}))
    assert job.page == "https://gitlab.example/acme/shop/-/merge_requests/7"
    target = {**GITLAB, "CI_MERGE_REQUEST_PROJECT_ID": "41"}
    assert job_of(target, b"", NONE).repository == "41"


def test_gitea_sets_the_variables_of_github_and_is_not_taken_for_it() -> None:
    job = job_of(GITEA, b"", NONE)
    assert (job.host, job.token_variable) == ("gitea", "GITEA_TOKEN")
    forgejo = {**without(GITEA, "GITEA_ACTIONS", "GITEA_TOKEN"), "FORGEJO_ACTIONS": "true"}
    assert (job_of(forgejo, b"", NONE).host, job_of(forgejo, b"", NONE).token_variable) == (
        "gitea", "GITHUB_TOKEN"
    )  # fmt: skip


def test_options_override_what_ci_says() -> None:
    given = Given("gitlab", "https://git.example/api/v4", "group/sub/shop", 3, "MY_TOKEN", OTHER)
    job = job_of({**GITHUB, "MY_TOKEN": "mine"}, b"", given)
    assert (job.host, job.api, job.repository, job.number, job.token, job.commit) == (
        "gitlab", "https://git.example/api/v4", "group/sub/shop", 3, "mine", OTHER
    )  # fmt: skip


OTHER = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("variables", "given", "says"),
    [
        ({}, NONE, "none of GITHUB_ACTIONS, GITLAB_CI and GITEA_ACTIONS is set"),
        ({}, Given("bitbucket"), "`bitbucket` is not a git host"),
        (without(GITHUB, "GITHUB_TOKEN"), NONE, "GITHUB_TOKEN or GH_TOKEN is not set"),
        ({**GITHUB, "GITHUB_TOKEN": ""}, NONE, "GITHUB_TOKEN or GH_TOKEN is not set"),
        (without(GITLAB, "GITLAB_TOKEN"), NONE, "GITLAB_TOKEN is not set"),
        (without(GITEA, "GITEA_TOKEN", "GITHUB_TOKEN"), NONE, "GITEA_TOKEN or GITHUB_TOKEN is not set"),
        (GITHUB, Given(token_variable="MINE"), "MINE is not set"),
        ({**GITHUB, "GITHUB_TOKEN": "two words"}, NONE, "GITHUB_TOKEN does not hold a token"),
        ({**GITHUB, "GITHUB_TOKEN": "a\r\nx-evil: 1"}, NONE, "GITHUB_TOKEN does not hold a token"),
        (without(GITHUB, "GITHUB_API_URL"), NONE, "GITHUB_API_URL is not set"),
        ({**GITHUB, "GITHUB_ACTIONS": ""}, NONE, "none of GITHUB_ACTIONS, GITLAB_CI"),
        ({**GITHUB, "GITHUB_API_URL": ""}, NONE, "GITHUB_API_URL is not set"),
        ({**GITHUB, "GITHUB_REPOSITORY": ""}, NONE, "GITHUB_REPOSITORY is not set"),
        (without(GITLAB, "CI_API_V4_URL"), NONE, "CI_API_V4_URL is not set"),
        (without(GITHUB, "GITHUB_REPOSITORY"), NONE, "GITHUB_REPOSITORY is not set"),
        (without(GITLAB, "CI_PROJECT_ID"), NONE, "CI_PROJECT_ID is not set"),
        (without(GITHUB, "GITHUB_REF"), NONE, "GITHUB_REF"),
        ({**GITHUB, "GITHUB_REF": "refs/heads/main"}, NONE, "about no pull request"),
        (without(GITLAB, "CI_MERGE_REQUEST_IID"), NONE, "CI_MERGE_REQUEST_IID"),
        ({**GITLAB, "CI_MERGE_REQUEST_IID": "7/notes"}, NONE, "CI_MERGE_REQUEST_IID"),
        (GITHUB, Given(repository="acme"), "`acme` is not a repository"),
        (GITHUB, Given(repository="../../user"), "is not a repository"),
        (GITHUB, Given(repository="acme/shop?x"), "is not a repository"),
        (GITHUB, Given(commit="HEAD"), "`HEAD` is not the id of a commit"),
    ],
)
def test_what_is_missing_or_wrong_is_named(variables: dict[str, str], given: Given, says: str) -> None:
    with pytest.raises(ReconcilerError, match=re.escape(says)) as refused:
        job_of(variables, b"", given)
    assert "hunter2" not in refused.value.message


def test_what_a_token_is_for_is_said_where_there_is_none() -> None:
    with pytest.raises(ReconcilerError) as refused:
        job_of(without(GITLAB, "GITLAB_TOKEN"), b"", NONE)
    assert "CI_JOB_TOKEN may not write" in refused.value.help
    with pytest.raises(ReconcilerError) as refused:
        job_of(without(GITHUB, "GITHUB_TOKEN"), b"", NONE)
    assert "pull-requests: write" in refused.value.help
