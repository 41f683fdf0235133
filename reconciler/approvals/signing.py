"""Approving a saved plan: whose key signs, and what is signed."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from glob import escape
from pathlib import Path

from reconciler.approvals.rules import Needed, needed
from reconciler.approvals.signers import SIGNERS
from reconciler.approvals.ssh import Key, agent_keys, public_of, sign
from reconciler.approvals.statement import PRINCIPAL, Approval, Statement, parse_approval
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.plural import counted
from reconciler.manifests.revisions.git import find_repository
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import SavedPlan
from reconciler.project.files import read_file
from reconciler.project.settings import ProjectSettings
from reconciler.reports.escape import visible

_USUAL = timedelta(hours=24)  # where no rule says how long an approval counts
_LITERAL = ("key::", "ssh-", "ecdsa-", "sk-")


def choose_key(config: ProjectSettings, given: Path | None) -> Key:
    """The given key, else the one that git signs with by SSH, else the agent's only one.

    Raises ReconcilerError where there is none, or more than one.
    """
    if given is not None:
        return public_of(given, config.variables)
    configured = _of_git(config)
    if configured.startswith(_LITERAL):
        words = configured.removeprefix("key::").split()
        return Key(None, " ".join(words[:2]))
    if configured:
        return public_of(Path(configured).expanduser(), config.variables)
    keys = agent_keys(config.variables)
    if len(keys) > 1:
        listed = ", ".join(Key(None, each).fingerprint for each in keys)
        raise ReconcilerError(
            f"the ssh agent has {len(keys)} keys ({listed})",
            help="choose one: --key FILE, which may be the public one",
        )
    return Key(None, keys[0])


def _of_git(config: ProjectSettings) -> str:
    try:
        git = find_repository(config.root, config.variables)
        if git.run("config", "--get", "gpg.format", allowed=(0, 1)).stdout.strip() != b"ssh":
            return ""
        return git.run("config", "--get", "user.signingkey", allowed=(0, 1)).stdout.decode().strip()
    except (ReconcilerError, UnicodeDecodeError):
        return ""


def principal_of(config: ProjectSettings, key: Key) -> str:
    """Under which name `key` is listed. Only says what to sign: `apply` asks the file that counts.

    Raises ReconcilerError where it is not listed.
    """
    path = Path(config.variables.get(SIGNERS) or config.root / config.written.approvals.signers)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    for line in lines:
        words = line.split()
        if not line.startswith("#") and key.public.split()[1] in words:
            for name in words[0].strip('"').split(","):
                if PRINCIPAL.fullmatch(name):
                    return name
    raise ReconcilerError(
        f"{path} does not list the key {key.fingerprint} under a name",
        help=f'pass --principal NAME, or let somebody list it: NAME namespaces="reconcile-plan" {key.public}',
    )


def statement_of(
    config: ProjectSettings, saved: SavedPlan, principal: str, reason: str, now: datetime, nonce: str
) -> Statement:
    context = saved.plan.context
    now = now.replace(microsecond=0)
    return Statement(
        plan=plan_digest(saved.plan),
        rehearsal=saved.rehearsal.digest if saved.rehearsal is not None else "",
        environment=context.environment or BASE,
        lineage=context.lineage or "",
        principal=principal,
        reason=reason,
        at=now,
        expires=now + min((each.rule.lasts for each in _asked(config, saved)), default=_USUAL),
        id=nonce,
    )


def _asked(config: ProjectSettings, saved: SavedPlan) -> Sequence[Needed]:
    """The rules of the settings that match the plan. Which ones count, only its apply knows."""
    rules, environment = config.written.approvals.rules, saved.plan.context.environment
    return needed(rules, saved.plan, environment, lambda address: None)


def still_needed(config: ProjectSettings, saved: SavedPlan, given: Collection[Approval]) -> int:
    """How many more people the settings ask for, once those who gave `given` have approved."""
    most = max((each.rule.people for each in _asked(config, saved)), default=0)
    return max(0, most - len({each.statement.principal for each in given}))


def given_already(plan_file: Path, statement: Statement) -> dict[Path, Approval]:
    """The approvals that others gave to the same plan and rehearsal, by their files next to `plan_file`."""
    found = {}
    for file in sorted(plan_file.parent.glob(f"{escape(plan_file.name)}.*.approval")):
        try:
            approval = parse_approval(read_file(file), str(file))
        except ReconcilerError:
            continue
        said = approval.statement
        about_this = (said.plan, said.rehearsal) == (statement.plan, statement.rehearsal)
        if about_this and said.principal != statement.principal and said.expires > statement.at:
            found[file] = approval
    return found


def signed(config: ProjectSettings, statement: Statement, key: Key) -> Approval:
    return Approval(statement, sign(statement.to_bytes(), key, config.variables))


def summary(saved: SavedPlan, statement: Statement, key: Key) -> Sequence[str]:
    """What a person reads before signing, beside the plan."""
    plan = saved.plan
    lost = [str(each.address) for each in plan.changes if each.impact == "data_loss"]
    destroys = dict.fromkeys([*map(str, plan.deletes), *lost])
    rehearsal = saved.rehearsal
    rehearsed = "no"
    if rehearsal is not None:
        decisions = sum(cell.end == "decision" for cell in rehearsal.cells)
        rehearsed = f"{statement.rehearsal}, {decisions} of its ends need a decision"
    calls = [f"{step.call.method} {step.call.path}" for step in plan.steps if step.mutates]
    loosened = [f"{each.address}: {each.objective} {each.before} -> {each.after}" for each in plan.loosened]
    lines = [
        f"You approve this as {statement.principal}, with the key {key.fingerprint}, "
        f"until {statement.expires:%Y-%m-%d %H:%M} UTC:",
        f"  environment  {statement.environment}",
        f"  plan         {statement.plan}",
        f"  destroys     {', '.join(destroys) or 'nothing'}",
        *(f"  loosens      {each}" for each in loosened),
        f"  rehearsed    {rehearsed}",
        f"  sends        {counted(len(calls), 'call')}",
        *(f"    {call}" for call in calls),
    ]
    return list(map(visible, lines))  # who made the file may have put anything into its names
