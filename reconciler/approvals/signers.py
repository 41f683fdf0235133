"""Who decides about a change: the rules and signers of before it, together with its own.

The change that is checked out may be somebody's pull request. What it makes stricter counts at once; anything
else counts from the next run on, because the state remembers what the last apply went by.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reconciler.approvals.rules import ApprovalSettings, Authority, Said, Signers
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.revisions.revision import Revision, trusted_revision
from reconciler.project.files import read_file
from reconciler.project.settings import ProjectSettings

_SECTION = "approvals"
SIGNERS = "RECONCILE_ALLOWED_SIGNERS"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NOBODY = re.compile(r"0+")  # what CI services say where there is no revision before
_NAME_IT = "name the revision before the change: --base REF"
_FETCH = (
    "check out the whole history: `fetch-depth: 0` (actions/checkout), GIT_DEPTH: 0 (GitLab), or "
    "`git fetch --unshallow`"
)


def authority_of(config: ProjectSettings, base: str = "") -> Authority:
    """`base`: the revision before the change, if somebody names it; else CI's variables do.

    Raises ReconcilerError where they name one that cannot be read: another one would be the change's choice.
    """
    outside, before, then = _outside(config), _revision_before(config, base), Said()
    if before is not None:
        settings = _settings_at(before)
        signers = _signers(before.read(settings.signers), f"`{settings.signers}` at {before.ref}")
        then = Said(tuple(settings.rules), (signers,))
    written = config.written.approvals
    file = config.root / written.signers
    signers = _signers(read_file(file) if file.exists() else None, f"`{written.signers}`")
    return Authority(Said(tuple(written.rules), (signers,)), then, outside)


def _signers(data: bytes | None, where: str) -> Signers:
    # What is no text cannot be a name or a key, and a state takes no NUL.
    return Signers((data or b"").decode(errors="replace").replace("\0", "\ufffd"), where)


def _outside(config: ProjectSettings) -> Signers | None:
    """Those in the file that the runner names. Raises ReconcilerError for one that a change could bring."""
    given = config.variables.get(SIGNERS, "")
    if not given:
        return None
    path = Path(given)
    if not path.is_absolute():
        raise ReconcilerError(f"{SIGNERS} must be an absolute path, not `{given}`")
    if any(_resolved(path).is_relative_to(folder) for folder in _checkout(config)):
        raise ReconcilerError(
            f"{SIGNERS} names a file of the checkout, which a change can bring along: {given}",
            help="keep it outside, or unset the variable: then the file of the project counts",
        )
    return _signers(read_file(path), given)


def _checkout(config: ProjectSettings) -> list[Path]:
    """The folders of the change's own files."""
    found = [config.root.resolve()]
    try:
        top = find_repository(config.root, config.variables).text("rev-parse", "--show-toplevel")
    except ReconcilerError:
        return found
    return [*found, Path(top).resolve()]


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as failure:
        raise ReconcilerError(f"cannot follow {path}: {failure}") from failure


def _revision_before(config: ProjectSettings, base: str) -> Revision | None:
    ref = base or _ci_base(config)
    if not ref:
        return None
    start = Path.cwd() if Path.cwd().is_relative_to(config.root) else config.root
    try:
        before = trusted_revision(start, config.variables, ref)
    except ReconcilerError as failure:
        raise ReconcilerError(
            f"the revision before this change cannot be read, so nobody knows who may approve it: "
            f"{failure.message}",
            help=_FETCH,
        ) from failure
    # A script that noted the commit before it pulled means that commit, even if nothing came.
    if base and not _COMMIT.fullmatch(base) and before.commit == before.git.commit_of("HEAD"):
        raise ReconcilerError(
            f"`{base}` is what is checked out: a change does not decide who approves it",
            help="name the revision before the change, such as HEAD^1 after a merge",
        )
    return before


def _settings_at(before: Revision) -> ApprovalSettings:
    try:
        return _approvals_in(before.read(SETTINGS_FILE) or b"")
    except (ValidationError, ValueError):
        raise ReconcilerError(
            f"`{SETTINGS_FILE}` at {before.ref} does not say which approvals are needed: it cannot be read",
            help="mend it in a change of its own, then name that revision with --base REF",
        ) from None


def _approvals_in(settings: bytes) -> ApprovalSettings:
    """Nothing else is looked at: an earlier version may have known other settings. Raises ValueError."""
    composed = compose(settings, SETTINGS_FILE)
    value: Any = composed.documents[0].value if composed.documents else {}
    if not composed.complete or composed.diagnostics or not isinstance(value, dict):
        raise ValueError
    return ApprovalSettings.model_validate(value.get(_SECTION, {}))


def _ci_base(config: ProjectSettings) -> str:
    """What the CI service says was there before; "" outside of one, and where it says of nothing."""
    variables = config.variables
    if variables.get("GITHUB_ACTIONS") == "true":  # Gitea and Forgejo set it, too
        said = _github(config)
    elif variables.get("GITLAB_CI") == "true":
        said = _gitlab(variables)
    else:
        return ""
    if _NOBODY.fullmatch(said):
        return ""
    if said and not _COMMIT.fullmatch(said):
        raise ReconcilerError(
            "the CI service names a revision before this change that is not a commit", help=_NAME_IT
        )
    return said


def _github(config: ProjectSettings) -> str:
    event, path = (config.variables.get(name, "") for name in ("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH"))
    way = {
        "push": ("before",),
        "pull_request": ("pull_request", "base", "sha"),
        "pull_request_target": ("pull_request", "base", "sha"),
        "merge_group": ("merge_group", "base_sha"),
    }.get(event)
    if way is None:
        return ""
    if any(_resolved(Path(path)).is_relative_to(folder) for folder in _checkout(config)):
        raise ReconcilerError(
            "GITHUB_EVENT_PATH names a file of the checkout, which a change can bring along", help=_NAME_IT
        )
    try:
        value: Any = json.loads(Path(path).read_bytes())
        for name in way:
            value = value[name]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        value = None
    if not isinstance(value, str) or not value:
        raise ReconcilerError(
            f"GITHUB_EVENT_PATH does not say what was there before this {event}", help=_NAME_IT
        )
    return value


def _gitlab(variables: Mapping[str, str]) -> str:
    """A merge request's base is the newest commit of its target, not where it once left it."""
    if variables.get("CI_MERGE_REQUEST_IID"):
        found = variables.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "")
        if not found:
            raise ReconcilerError(
                "CI_MERGE_REQUEST_TARGET_BRANCH_SHA is empty: only pipelines for merged results have it",
                help="--base origin/BRANCH names the target, once it is fetched",
            )
        return found
    return variables.get("CI_COMMIT_BEFORE_SHA", "")
