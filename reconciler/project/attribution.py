"""Who runs this, in which CI run, and why: from the variables of CI services, or else this machine's user.

A variable can be set by anybody, so this is what was said, not what was proven. It is kept for ever,
and shown to others. So it is short, nothing in it is invisible, and no credential of ours stays in it.
"""

import getpass
import os
import re
import socket
from collections.abc import Iterable, Mapping

from reconciler.core.context import Attribution, without_credentials
from reconciler.core.model import SENSITIVE
from reconciler.project.settings import ProjectSettings
from reconciler.reports.escape import visible

_MOST_ACTOR, _MOST_URL, _MOST_REASON = 100, 500, 500  # characters
_LEAST_SECRET = 4  # a shorter value would be found in any text
# The first that is set counts. Gitea and Forgejo set GitHub's names, too.
_ACTORS = ("GITEA_ACTOR", "FORGEJO_ACTOR", "GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
_USER_INFO = re.compile(r"(?<=://)[^\s/]*@")


def attribution_of(config: ProjectSettings, reason: str = "") -> Attribution:
    """What the variables of the run say, and `reason`, fit to be recorded."""
    variables = config.variables
    secrets = [variables.get(name, "") for name in config.own_variables | config.secret_variables]
    actor = next(filter(None, (variables.get(name) for name in _ACTORS)), "") or person()
    return Attribution(
        _fit(actor, _MOST_ACTOR, secrets),
        _fit(run_url(variables), _MOST_URL, secrets),
        _fit(reason, _MOST_REASON, secrets),
    )


def person() -> str:
    """The user and the machine: `ana@workshop`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, nobody may have this uid
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def holder() -> str:
    """Who takes a lease, for those who find it taken."""
    return f"{person()} (pid {os.getpid()})"


def run_url(variables: Mapping[str, str]) -> str:
    """Where people see the run of GitHub, Gitea, Forgejo or GitLab; "" outside of them."""
    numbered = variables.get("GITEA_ACTIONS") or variables.get("FORGEJO_ACTIONS")
    run = "GITHUB_RUN_NUMBER" if numbered else "GITHUB_RUN_ID"
    parts = [variables.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", run)]
    url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else variables.get("CI_JOB_URL", "")
    try:
        return without_credentials(url) if url.startswith(("https://", "http://")) else ""
    except ValueError:
        return ""


def _fit(text: str, most: int, secrets: Iterable[str]) -> str:
    """One line of at most `most` characters."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, SENSITIVE)
    line = visible(" ".join(_USER_INFO.sub("", text).split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"
