"""Which pull request a job of CI is about, and how its host is reached: by its variables, or by options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from msgspec import Struct
from pydantic_core import from_json

from reconciler.core.errors import ReconcilerError
from reconciler.project.attribution import run_url
from reconciler.services.answers import at_path

HostName = Literal["github", "gitlab", "gitea"]
HOSTS: tuple[HostName, ...] = get_args(HostName)

TOKENS: Mapping[HostName, tuple[str, ...]] = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "gitea": ("GITEA_TOKEN", "GITHUB_TOKEN"),
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
    """What options say; "" or 0 for what they do not."""

    host: str = ""
    api: str = ""
    repository: str = ""
    number: int = 0
    token_variable: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """`commit`: the head of the pull request when the job began; "" where nothing says. `also`: other names
    of what the job checked out, such as the merge that the host makes of a pull request.

    `run_url`: of the job, for people. `page`: of the pull request; "" where nothing says. `elsewhere`: the
    job comes after the pull request's own job (`workflow_run`), so that only the host knows its head.
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
    elsewhere: bool = False


def job_of(variables: Mapping[str, str], event: bytes, given: Given) -> Job:
    """`event`: the file that GITHUB_EVENT_PATH names; b"" for none. Raises ReconcilerError."""
    host = _host(given.host, variables)
    told = _event(event) if host != "gitlab" else {}
    variable, token = _token(host, given.token_variable, variables)
    return Job(
        host=host,
        api=_needed(
            "the address of its API", given.api or variables.get(_API[host], ""), _API[host], "--api URL"
        ),
        repository=_repository(host, given.repository, variables),
        number=given.number or _number(host, variables, told),
        token=token,
        token_variable=variable,
        commit=_commit(host, given.commit, variables, told),
        also=_also(host, variables, told),
        run_url=run_url(variables),
        page=_page(host, variables),
        elsewhere="workflow_run" in told,
    )


def _host(given: str, variables: Mapping[str, str]) -> HostName:
    """Gitea and Forgejo set GitHub's variables, too."""
    if given:
        return _known(given)
    if variables.get("GITEA_ACTIONS") or variables.get("FORGEJO_ACTIONS"):
        return "gitea"
    if variables.get("GITHUB_ACTIONS"):
        return "github"
    if variables.get("GITLAB_CI"):
        return "gitlab"
    raise ReconcilerError(
        "nothing says which git host is meant: none of GITHUB_ACTIONS, GITLAB_CI and GITEA_ACTIONS is set",
        help=f"pass --host {'|'.join(HOSTS)}",
    )


def _known(name: str) -> HostName:
    for each in HOSTS:
        if each == name:
            return each
    raise ReconcilerError(f"`{name}` is not a git host", help=f"one of {', '.join(HOSTS)}")


def _needed(what: str, value: str, variable: str, option: str) -> str:
    if not value:
        raise ReconcilerError(f"nothing says {what}: {variable} is not set", help=f"pass {option}")
    return value


def _token(host: HostName, given: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """The name of its variable, and the token."""
    names = (given,) if given else TOKENS[host]
    name = next((each for each in names if variables.get(each)), "")
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
    if given and not _SHA.fullmatch(given):
        raise ReconcilerError(f"`{given}` is not the id of a commit", help="pass --commit with a full id")
    if host == "gitlab":
        found: Any = variables.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or variables.get("CI_COMMIT_SHA")
    else:
        found = at_path(event, "pull_request.head.sha") or at_path(event, "workflow_run.head_sha")
    return given or (found if isinstance(found, str) and _SHA.fullmatch(found) else "")


def _also(host: HostName, variables: Mapping[str, str], event: Mapping[str, Any]) -> frozenset[str]:
    """Of a workflow_run, the checkout is the default branch: that says nothing of the pull request."""
    name = "CI_COMMIT_SHA" if host == "gitlab" else "GITHUB_SHA"
    found = variables.get(name, "")
    return frozenset({found}) if found and "workflow_run" not in event else frozenset()


def _page(host: HostName, variables: Mapping[str, str]) -> str:
    """GitLab's API does not tell where its comments are shown."""
    url, number = variables.get("CI_MERGE_REQUEST_PROJECT_URL", ""), variables.get("CI_MERGE_REQUEST_IID", "")
    return f"{url}/-/merge_requests/{number}" if host == "gitlab" and url and number else ""


def _event(text: bytes) -> Mapping[str, Any]:
    """Anything else than an event tells nothing."""
    try:
        found = from_json(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
