"""The pull request that a job of CI is about, and the address of its host: from variables or options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from msgspec import Struct
from pydantic_core import from_json

from reconciler.core.errors import ReconcilerError
from reconciler.project.attribution import run_url
from reconciler.services.outcome import at_path

HostName = Literal["github", "gitlab", "gitea"]
HOSTS: tuple[HostName, ...] = get_args(HostName)

TOKENS: Mapping[HostName, tuple[str, ...]] = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "gitea": ("GITEA_TOKEN", "GITHUB_TOKEN"),
}
_CI: Mapping[str, HostName] = {  # Gitea and Forgejo set GitHub's variable, too, so they come first
    "GITEA_ACTIONS": "gitea",
    "FORGEJO_ACTIONS": "gitea",
    "GITHUB_ACTIONS": "github",
    "GITLAB_CI": "gitlab",
}
_API = {"github": "GITHUB_API_URL", "gitlab": "CI_API_V4_URL", "gitea": "GITHUB_API_URL"}
_REPOSITORY = {"github": "GITHUB_REPOSITORY", "gitlab": "CI_PROJECT_ID", "gitea": "GITHUB_REPOSITORY"}
_NUMBER = {
    "github": "GITHUB_REF of a run for a pull request (refs/pull/N/merge)",
    "gitlab": "CI_MERGE_REQUEST_IID of a pipeline for a merge request",
    "gitea": "GITHUB_REF of a run for a pull request (refs/pull/N/head)",
}
_REF = re.compile(r"refs/pull/([1-9]\d*)/(?:merge|head)")
_SHA = re.compile(r"[0-9a-f]{7,64}")
_PATH = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class Given(Struct, frozen=True):
    """Values of the options; "" or 0 where they are not given."""

    host: str = ""
    api: str = ""
    repository: str = ""
    number: int = 0
    token_variable: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A pull request and how to reach its host.

    `commit`: the head of the pull request when the job started; "" where it is unknown. `also`: other ids of
    the checkout, such as the merge commit that the host makes. `run_url`: page of the job. `page`: page of
    the pull request; "" where it is unknown. `runs_later`: the job runs after the pull request's own job
    (`workflow_run`), so only the host knows the head.
    """

    host: HostName
    api: str
    repository: str
    number: int
    token: str = field(repr=False)
    token_variable: str
    commit: str = ""
    also: frozenset[str] = frozenset()
    run_url: str = ""
    page: str = ""
    runs_later: bool = False


def job_of(variables: Mapping[str, str], event: bytes, given: Given) -> Job:
    """The pull request of this job. Raises ReconcilerError where something needed is unknown.

    `variables`: the environment. `event`: the JSON at GITHUB_EVENT_PATH; b"" for none.
    """
    host = _host(given.host, variables)
    facts = _event(event) if host != "gitlab" else {}
    variable, token = _token(host, given.token_variable, variables)
    return Job(
        host=host,
        api=_needed(
            "the address of its API", given.api or variables.get(_API[host], ""), _API[host], "--api URL"
        ),
        repository=_repository(host, given.repository, variables),
        number=given.number or _number(host, variables, facts),
        token=token,
        token_variable=variable,
        commit=_commit(host, given.commit, variables, facts),
        also=_also(host, variables, facts),
        run_url=run_url(variables),
        page=_page(host, variables),
        runs_later="workflow_run" in facts,
    )


def _host(given: str, variables: Mapping[str, str]) -> HostName:
    """The host that the option names, else that of the CI whose variable is set."""
    if given:
        for host in HOSTS:
            if host == given:
                return host
        raise ReconcilerError(f"`{given}` is not a git host", help=f"one of {', '.join(HOSTS)}")
    for variable, host in _CI.items():
        if variables.get(variable):
            return host
    raise ReconcilerError(
        "nothing says which git host is meant: none of GITHUB_ACTIONS, GITLAB_CI and GITEA_ACTIONS is set",
        help=f"pass --host {'|'.join(HOSTS)}",
    )


def _needed(what: str, value: str, variable: str, option: str) -> str:
    """`value`, or ReconcilerError with the variable and the option that can give it."""
    if not value:
        raise ReconcilerError(f"nothing says {what}: {variable} is not set", help=f"pass {option}")
    return value


def _token(host: HostName, given: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """The name of the token's variable, and the token. Raises ReconcilerError without showing the value."""
    names = (given,) if given else TOKENS[host]
    name = next((name for name in names if variables.get(name)), "")
    if not name:
        raise ReconcilerError(
            f"there is no token for the git host: {' or '.join(names)} is not set", help=_TOKEN_HELP[host]
        )
    token = variables[name].strip()
    if not _PRINTABLE.fullmatch(token):
        raise ReconcilerError(f"{name} does not hold a token: it has characters that no token has")
    return name, token


_TOKEN_HELP: Mapping[HostName, str] = {
    "github": "give the step `env: GITHUB_TOKEN: ${{ github.token }}`, and the job "
    "`permissions: pull-requests: write, statuses: write`",
    "gitlab": "make a project access token with the scope `api`, and put it into the masked variable "
    "GITLAB_TOKEN: CI_JOB_TOKEN may not write comments",
    "gitea": "give the step `env: GITEA_TOKEN: ${{ secrets.GITEA_TOKEN }}`",
}


def _repository(host: HostName, given: str, variables: Mapping[str, str]) -> str:
    """OWNER/NAME; for GitLab also a path with groups, or the number of the project."""
    variable = _REPOSITORY[host]
    merged = variables.get("CI_MERGE_REQUEST_PROJECT_ID", "") if host == "gitlab" else ""
    found = _needed(
        "which repository is meant",
        given or merged or variables.get(variable, ""),
        variable,
        "--repository OWNER/NAME",
    )
    parts = found.count("/") + 1
    if not _PATH.fullmatch(found) or (host != "gitlab" and parts != 2):
        raise ReconcilerError(f"`{found}` is not a repository", help="write it as OWNER/NAME")
    return found


def _number(host: HostName, variables: Mapping[str, str], event: Mapping[str, Any]) -> int:
    """The number of the pull request: from the event, then from the ref of the run."""
    if host == "gitlab":
        text = variables.get("CI_MERGE_REQUEST_IID", "")
        found: Any = int(text) if text.isdecimal() else 0
    else:
        runs = at_path(event, "workflow_run.pull_requests")
        of_run = runs[0] if isinstance(runs, list) and len(runs) == 1 and isinstance(runs[0], dict) else {}
        is_pull = isinstance(at_path(event, "issue.pull_request"), dict)
        ref = _REF.fullmatch(variables.get("GITHUB_REF", ""))
        found = (
            at_path(event, "pull_request.number")
            or (at_path(event, "issue.number") if is_pull else 0)
            or of_run.get("number")
            or (int(ref[1]) if ref else 0)
        )
    if not isinstance(found, int) or found < 1:
        raise ReconcilerError(
            f"this run is about no pull request: nothing says its number ({_NUMBER[host]})",
            help="pass --pull-request NUMBER, or run it for pull requests only",
        )
    return found


def _commit(host: HostName, given: str, variables: Mapping[str, str], event: Mapping[str, Any]) -> str:
    """The head of the pull request when the job started; "" where it is unknown."""
    if given and not _SHA.fullmatch(given):
        raise ReconcilerError(f"`{given}` is not the id of a commit", help="pass --commit with a full id")
    if host == "gitlab":
        found: Any = variables.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or variables.get("CI_COMMIT_SHA")
    else:
        found = at_path(event, "pull_request.head.sha") or at_path(event, "workflow_run.head_sha")
    return given or (found if isinstance(found, str) and _SHA.fullmatch(found) else "")


def _also(host: HostName, variables: Mapping[str, str], event: Mapping[str, Any]) -> frozenset[str]:
    """The id of the checkout. In a `workflow_run` that is the default branch, so it does not count."""
    name = "CI_COMMIT_SHA" if host == "gitlab" else "GITHUB_SHA"
    found = variables.get(name, "")
    return frozenset({found}) if found and "workflow_run" not in event else frozenset()


def _page(host: HostName, variables: Mapping[str, str]) -> str:
    """The page of a merge request. GitLab's API does not give the addresses of comments."""
    url, number = variables.get("CI_MERGE_REQUEST_PROJECT_URL", ""), variables.get("CI_MERGE_REQUEST_IID", "")
    return f"{url}/-/merge_requests/{number}" if host == "gitlab" and url and number else ""


def _event(text: bytes) -> Mapping[str, Any]:
    """The event as a mapping; {} for anything that is not one."""
    try:
        found = from_json(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
