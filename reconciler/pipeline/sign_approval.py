"""Approving a saved plan: whose key signs, what is signed, and whether the plan is really of this state."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from reconciler.approvals.rules import needed
from reconciler.approvals.ssh import Key, agent_keys, public_of, sign
from reconciler.approvals.statement import PRINCIPAL, Approval, Statement
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.plural import counted
from reconciler.manifests.revisions.git import find_repository
from reconciler.pipeline.authority import SIGNERS
from reconciler.pipeline.open import open_state
from reconciler.pipeline.saved import key_of
from reconciler.pipeline.settings import ProjectSettings
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import SavedPlan, load_saved, unverified
from reconciler.reports.visible import visible

_USUAL = timedelta(hours=24)  # where no rule says how long an approval counts
_LITERAL = ("key::", "ssh-", "ecdsa-", "sk-")


class Checked(Struct, frozen=True):
    """`unverified`: why nobody could check here that the plan is of its state; "" where it is."""

    saved: SavedPlan
    unverified: str


async def check(text: bytes, config: ProjectSettings, state_url: str | None) -> Checked:
    """The plan in `text`. Raises ReconcilerError for a damaged one, and for one that its state did not sign.

    Who approves may have no access to the state: what is signed is the digest of what is shown.
    """
    found = unverified(text)
    try:
        async with open_state(config, state_url, pinned=False, read_only=True) as store:
            lineage = (await store.load()).lineage
            key = await key_of(store) if lineage else b""
    except ReconcilerError as failure:
        return Checked(found, failure.message)
    if lineage != found.plan.context.lineage:
        return Checked(found, "its state is not here")
    return Checked(load_saved(text, key), "")


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
    asked = needed(config.written.approvals.rules, saved.plan, context.environment, lambda address: None)
    now = now.replace(microsecond=0)
    return Statement(
        plan=plan_digest(saved.plan),
        rehearsal=saved.rehearsal.digest if saved.rehearsal is not None else "",
        environment=context.environment or BASE,
        lineage=context.lineage or "",
        principal=principal,
        reason=reason,
        at=now,
        expires=now + min((each.rule.lasts for each in asked), default=_USUAL),
        id=nonce,
    )


def signed(config: ProjectSettings, statement: Statement, key: Key) -> Approval:
    return Approval(statement, sign(statement.to_bytes(), key, config.variables))


def summary(checked: Checked, statement: Statement, key: Key) -> Sequence[str]:
    """What a person reads before signing, beside the plan."""
    plan = checked.saved.plan
    lost = [str(each.address) for each in plan.changes if each.impact == "data_loss"]
    destroys = dict.fromkeys([*map(str, plan.deletes), *lost])
    rehearsal = checked.saved.rehearsal
    rehearsed = "no"
    if rehearsal is not None:
        decisions = sum(cell.end == "decision" for cell in rehearsal.cells)
        rehearsed = f"{statement.rehearsal}, {decisions} of its ends need a decision"
    calls = [f"{step.call.method} {step.call.path}" for step in plan.steps if step.mutates]
    origin = (
        f"NOT checked here: {checked.unverified}" if checked.unverified else "signed with the state's key"
    )
    lines = [
        f"You approve this as {statement.principal}, with the key {key.fingerprint}, "
        f"until {statement.expires:%Y-%m-%d %H:%M} UTC:",
        f"  environment  {statement.environment}",
        f"  plan         {statement.plan}",
        f"  made by      {origin}",
        f"  destroys     {', '.join(destroys) or 'nothing'}",
        f"  rehearsed    {rehearsed}",
        f"  sends        {counted(len(calls), 'call')}",
        *(f"    {call}" for call in calls),
    ]
    return list(map(visible, lines))  # who made the file may have put anything into its names
