"""Rules, signers and objectives that count in a run, and the memory of them in the state.

Those of the last apply count together with the run's own: the change that is checked out may be somebody's
pull request. What it makes stricter counts at once. Anything weaker counts from the next run on.

All that counts is remembered before the first call. What is weaker is remembered at the end of a run that
went through all of its plan: a run that dies, fails, or is about a part leaves nothing weaker behind.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from reconciler.approvals.rules import (
    APPROVALS,
    GUARDRAILS,
    MAX_AGE,
    AgentSettings,
    ApprovalSettings,
    Authority,
    Guarded,
    Rule,
    Said,
    Signers,
    touched,
)
from reconciler.core.diagnostics import RULES_LOOSENED, Diagnostic, has_errors, warning
from reconciler.core.errors import Locked, ReconcilerError, StoreError
from reconciler.core.model import Address, Resource, StateRecord
from reconciler.core.steps import Loosened, Move, Plan, Result
from reconciler.execution.decisions import Content, recall, remember
from reconciler.guardrails.limit import Limit, require_limits
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.git import find_repository
from reconciler.manifests.revisions.revision import Revision, trusted_revision
from reconciler.planning.declared import Desired, declared_scopes
from reconciler.planning.reviewed import NOT_IN_PLAN
from reconciler.project.files import read_file
from reconciler.project.project import Project
from reconciler.project.settings import ProjectSettings
from reconciler.state.store import Lease, State


def rules_count(authority: Authority, state: State) -> bool:
    """Whether any rule may count in a run, before anything more is imported for that."""
    return bool(authority.now.rules or authority.before.rules or APPROVALS in state.remembered)


def all_known(authority: Authority, state: State) -> Said:
    """All rules that may count in a run, before it is known what the run is about."""
    remembered = map(_read, recall(state, APPROVALS).get("rules", {}))
    return Said.of(authority.before, authority.now, *remembered)


class InForce(Struct, frozen=True):
    """`said`: the rules and signers that count. `loosened`: those of the rules that end with this run."""

    said: Said
    loosened: Sequence[Rule | Limit]

    def warnings(self) -> Iterator[Diagnostic]:
        """A warning for each rule that is gone or weaker."""
        for rule in self.loosened:
            yield warning(
                RULES_LOOSENED,
                f"{rule.described} ({rule.terms}) is gone or weaker now; it still counts in this run",
                help="if this is wanted, apply without the changes that it holds back: it ends with an apply "
                "that goes through; if not, put it back where it was",
            )


class Terms(Struct, frozen=True):
    """The terms that a run is judged by.

    `resources`: declared by its manifests; `state`: the one that it is planned by.

    The state remembers `rules`: as JSON, what each set of rules and signers says, with the scopes that are
    held to it. And `ages`, those of the objectives, by address and in hours.
    """

    authority: Authority
    resources: Mapping[Address, Resource]
    state: State
    plan: Plan

    @property
    def scopes(self) -> set[str]:
        """The scopes in which the manifests declare anything, or the plan acts."""
        records = self.state.records
        acts = {records[address].scope for address in touched(self.plan) if address in records}
        return declared_scopes(self.resources.values()) | acts

    @property
    def scratch(self) -> frozenset[Address]:
        """The addresses of what drills restore into: only an agent needs an approval for them."""
        found = {
            change.address: self.resources.get(change.address) or self.state.records.get(change.address)
            for change in self.plan.changes
        }
        return frozenset(address for address, known in found.items() if known and known.lifecycle.scratch)

    @property
    def by_agent(self) -> bool:
        """Whether this run is an agent's: then nothing gets looser by it, even where it sends nothing."""
        return any(rule.when.agent in self.authority.variables for rule in self.in_force().said.approvals)

    def in_force(self) -> InForce:
        """Raises ReconcilerError where a newer version wrote a rule that is not known here."""
        now, remembered = self.authority.now, recall(self.state, APPROVALS)
        before = Said.of(*map(_read, self._held_to(remembered)), self.authority.before)
        loosened: list[Rule | Limit] = []
        for rule in before.rules:
            known = any(other.covers(rule) for other in loosened)
            if not known and not _stands(rule, before, now):
                loosened.append(rule)
        said = Said.of(Said(tuple(loosened), before.signers), now)
        if self.authority.outside is not None:
            said = Said(said.rules, (self.authority.outside,))
        return InForce(said, loosened)

    def several(self) -> Sequence[Said]:
        """What counts, by the revision that said it."""
        remembered = map(_read, self._held_to(recall(self.state, APPROVALS)))
        return (self.authority.now, self.authority.before, *remembered)

    def begun(self, before: Content) -> Content:
        """The memory while this runs: everything that counts in it, for every scope that it is about."""
        said = (*_written(self.authority.before), *_written(self.authority.now))
        rules, ages = before.get("rules", {}), before.get("ages", {})
        if counting := {*self._held_to(before), *said}:
            scopes = self.scopes
            rules = {**rules, **{text: sorted(scopes.union(rules.get(text, ()))) for text in counting}}
        return _content(rules, ages | {name: min(age, ages.get(name, age)) for name, age in self._ages()})

    def ended(self, before: Content, whole: set[str], records: Collection[StateRecord]) -> Content:
        """The memory afterwards: what counts now, for the scopes `whole` and for all that is declared."""
        now, others = self.authority.now, {record.scope for record in records} - whole
        rules = {text: others.intersection(scopes) for text, scopes in before.get("rules", {}).items()}
        rules |= {text: whole.union(rules.get(text, ())) for text in _written(now)}
        left = {str(record.address) for record in records if record.address not in self.resources}
        ages = {name: age for name, age in before.get("ages", {}).items() if name in left}
        return _content(
            {text: sorted(scopes) for text, scopes in rules.items() if scopes}, ages | dict(self._ages())
        )

    def _held_to(self, remembered: Content) -> Collection[str]:
        """The remembered rules of this run's scopes; all of them, where it is about new scopes only."""
        rules: Content = remembered.get("rules", {})
        scopes = self.scopes if rules else set()
        if scopes.isdisjoint(record.scope for record in self.state.records.values()):
            return rules.keys()
        return [text for text, held in rules.items() if not scopes.isdisjoint(held)]

    def _ages(self) -> Iterator[tuple[str, Any]]:
        """The age objectives by address, in hours. A rule that comes later asks about weaker ones."""
        for address, resource in self.resources.items():
            if (age := resource.objectives.get(MAX_AGE)) is not None:
                yield str(address), age


def weakened_objectives(
    state: State, resources: Mapping[Address, Resource], moves: Sequence[Move]
) -> Iterator[Loosened]:
    """Age objectives that are weaker than at the last apply, among those of `resources`."""
    ages = {Address.parse(text): age for text, age in recall(state, APPROVALS).get("ages", {}).items()}
    ages |= {move.target: ages[move.source] for move in moves if move.source in ages}
    for address, before in ages.items():
        if address in resources:
            after = resources[address].objectives.get(MAX_AGE)
            if after is None or after > before:
                yield Loosened(address, MAX_AGE, before, after)


async def remember_begun(project: Project, terms: Terms, held: Lease) -> None:
    """Before the first call: what is stricter in this run holds for the next one, too."""
    await _remember(project, terms.state, terms.begun, held)


async def remember_ended(
    project: Project, desired: Desired, terms: Terms, results: Sequence[Result] = ()
) -> None:
    """Remember, at the end, the rules and objectives of this revision, as far as the run was about them.

    Nothing gets looser where somebody has made it stricter since this run was planned.
    """
    planned = terms.begun(recall(terms.state, APPROVALS))
    if not planned:
        return
    problems = terms.plan.diagnostics
    failed = any(result.outcome != "done" for result in results)
    left_out = has_errors(problems) or any(problem.code == NOT_IN_PLAN for problem in problems)
    is_part = failed or left_out or desired.targets or desired.focus is not None or terms.by_agent

    def ended(before: Content) -> Content:
        """The new memory, from the current memory of the state."""
        begun = terms.begun(before)
        if is_part or begun != planned:
            return begun
        left = [record for record in state.records.values() if record.address not in terms.resources]
        others = {record.scope for record in left if not desired.selected(record)}
        return terms.ended(begun, declared_scopes(desired.resources) - others, state.records.values())

    try:
        state = await project.store.load()
        await _remember(project, state, ended)
    except (Locked, StoreError) as failure:
        project.reporter.note(f"the state keeps the approval rules of the last apply: {failure.message}")


async def _remember(
    project: Project, state: State, new: Callable[[Content], Content], held: Lease | None = None
) -> None:
    """`state`: as it was loaded just now."""
    if not recall(state, APPROVALS) and new({}).get("rules"):
        project.reporter.note(
            "this state remembered no approval rules or signers yet: those of this revision and its base "
            "count, and from now on it remembers them"
        )
    await remember(project.store, project.actor(), APPROVALS, new, held, known=state)


def _stands(rule: Rule | Limit, before: Said, now: Said) -> bool:
    """Whether `now` asks for as much. Of windows, whether it opens none at new times for the same impact."""
    if not isinstance(rule, Limit) or rule.kind != "Window":
        return any(other.covers(rule) for other in now.rules)
    old, new = ([limit.spec for limit in said.limits if limit.kind == "Window"] for said in (before, now))
    for impact in rule.spec.impacts:
        here = [window for window in new if impact in window.impacts]
        if not here or not all(any(window.opens_within(was, impact) for was in old) for window in here):
            return False
    return True


def _content(rules: Content, ages: Content) -> Content:
    """The memory of both, without empty parts."""
    return {name: found for name, found in (("rules", rules), ("ages", ages)) if found}


def _written(said: Said) -> Collection[str]:
    """The rules and signers as one JSON text; nothing where there are none."""
    if not said.rules and not any(signer.text for signer in said.signers):
        return ()
    rules = [rule.to_json() for rule in said.rules]
    return (json.dumps({"rules": rules, "signers": [signer.text for signer in said.signers]}),)


def _read(written: str) -> Said:
    """The rules and signers of what `_written` made. Raises ReconcilerError for a newer version's."""
    content = json.loads(written)
    try:
        rules = [
            Limit.from_json(rule["guardrail"]) if "guardrail" in rule else Rule.model_validate(rule)
            for rule in content["rules"]
        ]
    except ValidationError:
        raise ReconcilerError(
            "the state remembers an approval rule that this version does not know",
            help="use the version that wrote it, or a newer one",
        ) from None
    where = "the `allowed_signers` of the last apply"
    return Said(tuple(rules), tuple(Signers(text, where) for text in content["signers"]))


SIGNERS = "RECONCILE_ALLOWED_SIGNERS"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NOBODY = re.compile(r"0+")  # what CI services say where there is no revision before
_NAME_IT = "name the revision before the change: --base REF"
_FETCH = (
    "check out the whole history: `fetch-depth: 0` (actions/checkout), GIT_DEPTH: 0 (GitLab), or "
    "`git fetch --unshallow`"
)


def authority_of(config: ProjectSettings, base: str = "") -> Authority:
    """The rules and signers of this revision and of the revision before the change.

    `base`: names that revision; without it, the variables of the CI service do.

    Raises ReconcilerError where they name one that cannot be read: another one would be the change's choice.
    """
    outside, before, then = _outside(config), _revision_before(config, base), Said()
    if before is not None:
        settings, rules, patterns = _settings_at(before)
        signers = _signers(before.read(settings.signers), f"`{settings.signers}` at {before.ref}")
        then = Said((*rules, *require_limits(patterns, config.root, before)), (signers,))
    name = config.written.approvals.signers
    file = config.root / name
    signers = _signers(read_file(file) if file.exists() else None, f"`{name}`")
    return Authority(Said(_rules_here(config), (signers,)), then, outside, set_variables(config))


def authority_here(config: ProjectSettings) -> Authority:
    """What the settings and guardrails say, for a verb that only reads: it tells what an apply asks for."""
    return Authority(Said(_rules_here(config)), variables=set_variables(config))


def _rules_here(config: ProjectSettings) -> tuple[Rule | Limit, ...]:
    """The rules of the settings, and the guardrails. Raises ManifestError where a file has an error."""
    return (*config.written.rules, *require_limits(config.written.guardrails, config.root, config.trusted))


def set_variables(config: ProjectSettings) -> frozenset[str]:
    """The names of the environment variables that are set, and not empty."""
    return frozenset(name for name, value in config.variables.items() if value)


def agents_of(config: ProjectSettings, state: State | None = None) -> Sequence[str]:
    """The variables by which this run is an agent's: as the settings say, or the state remembers."""
    texts = recall(state, APPROVALS).get("rules", {}) if state is not None else ()
    remembered = Said.of(*map(_read, texts))
    named = {rule.when.agent for rule in (*config.written.rules, *remembered.approvals)}
    return sorted(set_variables(config) & named)


def _signers(data: bytes | None, where: str) -> Signers:
    """The signers in `data`, the content of a file; None where it is not there."""
    # What is no text cannot be a name or a key, and a state takes no NUL.
    return Signers((data or b"").decode(errors="replace").replace("\0", "\ufffd"), where)


def _outside(config: ProjectSettings) -> Signers | None:
    """The signers in the file that the runner names. Raises ReconcilerError for one in the checkout."""
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
    """`path` with its links followed. Raises ReconcilerError where they go round in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as failure:
        raise ReconcilerError(f"cannot follow {path}: {failure}") from failure


def _revision_before(config: ProjectSettings, base: str) -> Revision | None:
    """The revision before the change; None where nobody names one.

    Raises ReconcilerError where it cannot be read.
    """
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
            help="; or ".join(filter(None, (failure.help, _FETCH))),
        ) from failure
    # A script that noted the commit before it pulled means that commit, even if nothing came.
    if base and not _COMMIT.fullmatch(base) and before.commit == before.git.commit_of("HEAD"):
        raise ReconcilerError(
            f"`{base}` is what is checked out: a change does not decide who approves it",
            help="name the revision before the change, such as HEAD^1 after a merge",
        )
    return before


def _settings_at(before: Revision) -> tuple[ApprovalSettings, tuple[Rule, ...], Sequence[str]]:
    """The approval settings at the revision `before`, all rules there, and which files hold guardrails.

    Raises ReconcilerError where they cannot be read.
    """
    try:
        return _approvals_in(before.read(SETTINGS_FILE) or b"")
    except (ValidationError, ValueError):
        raise ReconcilerError(
            f"`{SETTINGS_FILE}` at {before.ref} does not say which approvals are needed: it cannot be read",
            help="mend it in a change of its own, then name that revision with --base REF",
        ) from None


def _approvals_in(settings: bytes) -> tuple[ApprovalSettings, tuple[Rule, ...], Sequence[str]]:
    """Nothing else is looked at: an earlier version may have known other settings. Raises ValueError."""
    composed = compose(settings, SETTINGS_FILE)
    value: Any = composed.documents[0].value if composed.documents else {}
    if not composed.complete or composed.diagnostics or not isinstance(value, dict):
        raise ValueError
    approvals = ApprovalSettings.model_validate(value.get("approvals", {}))
    agents = AgentSettings.model_validate(value.get("agents", {}))
    patterns = Guarded.model_validate({"guardrails": value.get("guardrails", GUARDRAILS)}).guardrails
    return approvals, (*approvals.rules, *agents.rules), patterns


def _ci_base(config: ProjectSettings) -> str:
    """The commit before the change, as the CI service names it; "" for none."""
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
    """The commit before the change, from the event file of GitHub Actions; "" for events without one."""
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
