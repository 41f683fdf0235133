"""The file of an approval: a statement, and the SSH signature of its bytes.

    { "format": "reconcile-approval-1", … }
    -----BEGIN SSH SIGNATURE-----
    …
    -----END SSH SIGNATURE-----

The signature is of all that stands before its first line: `ssh-keygen -Y verify` needs no help of ours.
The second half of this module makes one: it chooses the key, and shows a person what is signed.
"""

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.approvals.in_force import SIGNERS
from reconciler.approvals.rules import Needed, needed
from reconciler.approvals.ssh import Key, agent_keys, public_of, sign
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import ADDRESS
from reconciler.core.words import counted
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.revisions.git import find_repository
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import SavedPlan
from reconciler.project.files import read_file
from reconciler.project.settings import ProjectSettings
from reconciler.reports.escape import visible

FORMAT = "reconcile-approval-1"
APPROVAL = "approval-"  # begins the id of an approval, which stands among those of plans
MOST_BYTES = 1 << 16
MOST_REASON = 500  # characters
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----\n", b"-----END SSH SIGNATURE-----\n"
_WIDTH = 70  # of the lines that ssh-keygen writes
_WORD = re.compile(rf"(?:{ManifestKind.name_pattern})|(?:{ADDRESS.pattern})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# No pattern, no list and no option of `ssh-keygen`, and fit to be part of a file's name.
PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,127}")


class Statement(Struct, frozen=True):
    """`plan`, `rehearsal`: digests; "" for a plan that was not rehearsed. `lineage`: of the state.

    `id`: random, so that two approvals are never the same one. `overrides`: the names of the guardrails that
    it overrides, and the addresses that need not wait for a window, with spaces between them.
    """

    plan: str
    rehearsal: str
    environment: str
    lineage: str
    principal: str
    reason: str
    at: datetime
    expires: datetime
    id: str
    overrides: str = ""

    @property
    def overridden(self) -> Sequence[str]:
        return self.overrides.split()

    def to_bytes(self) -> bytes:
        """The only way to write it: what was signed can be read back in no other way."""
        said = asdict(self) | {"at": _written(self.at), "expires": _written(self.expires)}
        if not self.overrides:
            del said["overrides"]
        return (json.dumps({"format": FORMAT, **said}, indent=1) + "\n").encode()


class Approval(Struct, frozen=True):
    """`name`: of its file, for people. `signature`: as `ssh-keygen` writes it."""

    statement: Statement
    signature: bytes
    name: str = ""

    @property
    def id(self) -> str:
        """The id that the journal holds once it is used. Two signatures of one statement are one approval."""
        return f"{APPROVAL}{sha256(self.statement.to_bytes()).hexdigest()}"

    def to_bytes(self) -> bytes:
        """The content of its file."""
        return self.statement.to_bytes() + self.signature

    def to_json(self) -> dict[str, str]:
        """The whole approval, for the journal."""
        return {
            "id": self.id,
            "statement": self.statement.to_bytes().decode(),
            "signature": self.signature.decode(),
        }


def parse_approval(data: bytes, name: str) -> Approval:
    """Raises ReconcilerError for anything but what `Approval.to_bytes` writes."""
    text, begin, rest = data.partition(_BEGIN)
    body, end, more = rest.partition(_END)
    if len(data) > MOST_BYTES or not begin or not end or more or not _is_armor(body):
        raise _broken(name, "it does not hold a statement and one whole SSH signature")
    return Approval(parse_statement(text, name), begin + body + end, name)


def _is_armor(body: bytes) -> bool:
    """Whether `ssh-keygen` writes it so: there is one way, and no byte more."""
    try:
        data = b64encode(b64decode(body.replace(b"\n", b""), validate=True))
    except NotBase64:
        return False
    lines = (data[at : at + _WIDTH] for at in range(0, len(data), _WIDTH))
    return bool(data) and body == b"".join(line + b"\n" for line in lines)


def parse_statement(text: bytes, name: str) -> Statement:
    """Raises ReconcilerError."""
    try:
        said: Any = json.loads(text)
        if not isinstance(said, dict) or said.pop("format", None) != FORMAT:
            raise _broken(name, f"its statement is not of the format {FORMAT}")
        at, expires = (_read(said.pop(name)) for name in ("at", "expires"))
        statement = Statement(**said, at=at, expires=expires)
        written = statement.to_bytes()
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _broken(name, "its statement cannot be read") from None
    problems = list(_wrong(statement))
    if problems or written != text:
        raise _broken(name, f"its statement has a wrong `{problems[0]}`" if problems else "it was rewritten")
    return statement


def _wrong(statement: Statement) -> Sequence[str]:
    """The names of the fields with values that `statement_of` never gives."""
    texts = {name: value for name, value in asdict(statement).items() if name not in ("at", "expires")}
    wrong = [name for name, value in texts.items() if not isinstance(value, str)]
    if wrong:
        return wrong
    fits = {
        "plan": bool(_DIGEST.fullmatch(statement.plan)),
        "rehearsal": not statement.rehearsal or bool(_DIGEST.fullmatch(statement.rehearsal)),
        "principal": bool(PRINCIPAL.fullmatch(statement.principal)),
        "reason": is_reason(statement.reason),
        "id": bool(re.fullmatch(r"[0-9a-f]{32}", statement.id)),
        "expires": statement.at < statement.expires,
        "overrides": statement.overrides == " ".join(sorted(filter(_WORD.fullmatch, statement.overridden))),
    }
    return [name for name, fit in fits.items() if not fit]


def is_reason(text: str) -> bool:
    """Whether people can read it: one line, not blank, without characters that steer a display."""
    return text.isprintable() and bool(text.strip()) and len(text) <= MOST_REASON


def _broken(name: str, why: str) -> ReconcilerError:
    """The error for a file that is not an approval."""
    return ReconcilerError(
        f"{name} is not an approval: {why}", help="give the file that `reconcile approve` wrote, unchanged"
    )


def _read(at: str) -> datetime:
    """The moment of a text in UTC. Raises ValueError."""
    return datetime.strptime(at, _TIME).replace(tzinfo=UTC)


def _written(at: datetime) -> str:
    """The moment as text, in UTC and whole seconds."""
    return at.astimezone(UTC).strftime(_TIME)


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
        listed = ", ".join(Key(None, public).fingerprint for public in keys)
        raise ReconcilerError(
            f"the ssh agent has {len(keys)} keys ({listed})",
            help="choose one: --key FILE, which may be the public one",
        )
    return Key(None, keys[0])


def _of_git(config: ProjectSettings) -> str:
    """The key that git signs with by SSH, as its settings name it; "" for none."""
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
    config: ProjectSettings,
    saved: SavedPlan,
    principal: str,
    reason: str,
    now: datetime,
    nonce: str,
    overrides: Collection[str] = (),
) -> Statement:
    """The statement that `principal` signs. It ends when the strictest matching rule of the settings says.

    `overrides`: names of guardrails, and addresses.
    """
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
        expires=now + min((needed.rule.lasts for needed in _asked(config, saved)), default=_USUAL),
        id=nonce,
        overrides=" ".join(sorted(set(overrides))),
    )


def _asked(config: ProjectSettings, saved: SavedPlan) -> Sequence[Needed]:
    """The rules of the settings that match the plan. Which ones count, only its apply knows."""
    rules, environment = config.written.approvals.rules, saved.plan.context.environment
    return needed(rules, saved.plan, environment, lambda address: None)


def still_needed(config: ProjectSettings, saved: SavedPlan, given: Collection[Approval]) -> int:
    """How many more people the settings ask for, once those who gave `given` have approved."""
    most = max((needed.rule.people for needed in _asked(config, saved)), default=0)
    return max(0, most - len({approval.statement.principal for approval in given}))


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
    """The approval of `statement` with this key. Raises ReconcilerError where it does not sign."""
    return Approval(statement, sign(statement.to_bytes(), key, config.variables))


def summary(saved: SavedPlan, statement: Statement, key: Key) -> Sequence[str]:
    """The lines that a person reads before signing, next to the plan."""
    plan = saved.plan
    lost = [str(change.address) for change in plan.changes if change.impact == "data_loss"]
    destroys = dict.fromkeys([*map(str, plan.deletes), *lost])
    rehearsal = saved.rehearsal
    rehearsed = "no"
    if rehearsal is not None:
        decisions = sum(cell.end == "decision" for cell in rehearsal.cells)
        rehearsed = f"{statement.rehearsal}, {decisions} of its ends need a decision"
    calls = [f"{step.call.method} {step.call.path}" for step in plan.steps if step.mutates]
    loosened = [
        f"{weakened.address}: {weakened.objective} {weakened.before} -> {weakened.after}"
        for weakened in plan.loosened
    ]
    lines = [
        f"You approve this as {statement.principal}, with the key {key.fingerprint}, "
        f"until {statement.expires:%Y-%m-%d %H:%M} UTC:",
        f"  environment  {statement.environment}",
        f"  plan         {statement.plan}",
        f"  destroys     {', '.join(destroys) or 'nothing'}",
        *(f"  loosens      {weakened}" for weakened in loosened),
        *([f"  overrides    {statement.overrides}"] if statement.overrides else []),
        f"  rehearsed    {rehearsed}",
        f"  sends        {counted(len(calls), 'call')}",
        *(f"    {call}" for call in calls),
    ]
    return list(map(visible, lines))  # who made the file may have put anything into its names
