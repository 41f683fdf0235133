"""Who decides about a change: the rules and the signers of the revision before it, never its own.

The change that is checked out may be somebody's pull request: it may add rules, and take none away.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ValidationError

from reconciler.approvals.rules import ApprovalSettings, Rule
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.git import Git, Incomplete, find_repository
from reconciler.manifests.revisions.revision import Revision
from reconciler.manifests.revisions.trusted import trusted_revision
from reconciler.pipeline.settings import ProjectSettings

if TYPE_CHECKING:
    from reconciler.approvals.judging import Signers

_SECTION = "approvals"
SIGNERS = "RECONCILE_ALLOWED_SIGNERS"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NOBODY = re.compile(r"0+")  # what CI services say where there is no revision before
_NAME_IT = "name the revision before the change: --base REF"
_FETCH = (
    "check out the whole history: `fetch-depth: 0` (actions/checkout), GIT_DEPTH: 0 (GitLab), or "
    "`git fetch --unshallow`"
)


class Authority(Struct, frozen=True):
    """`rules`: those of before, and those of now. `unknown`: why it is not known who may sign.

    `before`: the revision before the change, if it is known. `is_cut_off`: it is not, and the clone lacks
    earlier versions, of which one may have had rules.
    """

    rules: tuple[Rule, ...] = ()
    signers: "Signers | None" = None
    unknown: str = ""
    before: Revision | None = None
    is_cut_off: bool = False


NO_RULES = Authority()


def authority_of(config: ProjectSettings, base: str = "") -> Authority:
    """`base`: the revision before the change, if somebody names it; else CI's variables do.

    Raises ReconcilerError where they name one that cannot be read: another one would be the change's choice.
    """
    now = config.written.approvals
    outside = _outside(config)
    before = _revision_before(config, base)
    if before is None:
        if outside is not None and _is_repository(config):
            raise ReconcilerError(
                f"{SIGNERS} is set, but not which revision was before this change: its rules count, too",
                help=_NAME_IT,
            )
        unknown = "" if outside else "which revision was before this change is not known"
        rules, is_cut_off = _rules_ever(config)
        rules = tuple(dict.fromkeys((*now.rules, *rules)))
        if is_cut_off and (rules or (config.root / now.signers).exists()):
            raise cut_off("this project has rules or signers of approvals")
        return Authority(rules, outside, unknown, is_cut_off=is_cut_off)
    then = _settings_at(before)
    rules = tuple(dict.fromkeys((*then.rules, *now.rules)))
    if outside is not None:
        return Authority(rules, outside, before=before)
    data = before.read(then.signers)
    if data is None:
        return Authority(rules, None, f"there is no `{then.signers}` at {before.ref}", before)
    return Authority(rules, _signers(data, f"`{then.signers}` at {before.ref}"), before=before)


def _signers(data: bytes, where: str) -> "Signers":
    from reconciler.approvals.judging import Signers  # few projects have any

    return Signers(data, where)


def _outside(config: ProjectSettings) -> "Signers | None":
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
            help="keep it outside, or unset the variable: then the file at the base counts",
        )
    try:
        return _signers(path.read_bytes(), given)
    except OSError as failure:
        raise ReconcilerError(f"cannot read {SIGNERS}, {given}: {failure.strerror}") from failure


def _checkout(config: ProjectSettings) -> list[Path]:
    """The folders of the change's own files."""
    found = [config.root.resolve()]
    try:
        top = find_repository(config.root, config.variables).text("rev-parse", "--show-toplevel")
    except ReconcilerError:
        return found
    return [*found, Path(top).resolve()]


def _is_repository(config: ProjectSettings) -> bool:
    return len(_checkout(config)) > 1


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


def cut_off(because: str) -> ReconcilerError:
    """For a clone in which nobody can see which rules the change took away, though there were some."""
    return ReconcilerError(
        f"{because}, but this clone has only a part of the history, and which revision was before this "
        "change is not known: a change may have taken rules away",
        help=f"{_FETCH}, and without `filter`; or {_NAME_IT}",
    )


def _rules_ever(config: ProjectSettings) -> tuple[tuple[Rule, ...], bool]:
    """The rules of all versions of the settings in this clone, and whether it lacks any.

    The change may be one that took some away.
    """
    try:
        git = find_repository(config.root, config.variables)
    except ReconcilerError:
        return (), False
    found: list[Rule] = []
    try:
        found.extend(_rules_of_versions(git))
    except Incomplete:
        return tuple(found), True
    return tuple(found), git.is_shallow()


def _rules_of_versions(git: Git) -> Iterator[Rule]:
    folders = PurePosixPath(git.prefix or ".")
    files = [f"{'../' * steps}{SETTINGS_FILE}" for steps in range(len(folders.parts) + 1)]
    asked = git.run("log", "-1", "--format=%H", f"-S{_SECTION}", "--", *files, allowed=(0, 128))
    if not asked.stdout:
        return  # no version has had any; or there is no commit
    commits = git.text("log", "--format=%H", "--", *files).split()
    for commit, file in product(commits, files):
        found = git.run("cat-file", "blob", f"{commit}:./{file}", allowed=(0, 128)).stdout
        with suppress(ValidationError, ValueError):  # the change may have broken it, too
            yield from _approvals_in(found).rules


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
