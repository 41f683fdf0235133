"""Whether an approval counts, and what it dies by otherwise.

Pure but for `ssh-keygen`, which judges the signatures.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.approvals.rules import LONGEST, Rule, Signers
from reconciler.approvals.ssh import verifies
from reconciler.approvals.statement import NAMESPACE, Approval

_CLOCKS = timedelta(minutes=5)  # so far may two machines' clocks be apart


class About(Struct, frozen=True):
    """What an approval must be about, to count: digests of the plan and its rehearsal, and the rest of it.

    `used`: the ids of approvals that runs have used.
    """

    plan: str
    rehearsal: str
    environment: str
    lineage: str
    used: Collection[str] = ()


def why_dead(
    approval: Approval, about: About, signers: Sequence[Signers], now: datetime, env: Mapping[str, str]
) -> str:
    """ "" for one that counts: by all `signers`. Raises ReconcilerError where ssh-keygen cannot be asked."""
    said = approval.statement
    if approval.id in about.used:
        return "it was used already: an approval counts once"
    if said.environment != about.environment:
        return f"it is for environment `{said.environment}`, not `{about.environment}`"
    if said.lineage != about.lineage:
        return "it is for another state"
    if said.plan != about.plan:
        return f"it is for another plan ({said.plan[:12]}, not {about.plan[:12]})"
    if said.rehearsal != about.rehearsal:
        return "it is for another rehearsal of this plan"
    reasons = (why_unsigned(approval, each, now, env) for each in signers)
    return why_late(approval, LONGEST, now) or next(filter(None, reasons), "")


def why_late(approval: Approval, lasts: timedelta, now: datetime) -> str:
    """ "" while it is in force: to the end that it names, and no longer than `lasts`."""
    said = approval.statement
    if said.at > now + _CLOCKS:
        return f"it was given at {said.at:%Y-%m-%d %H:%M} UTC, which is not yet: check both clocks"
    ends = min(said.expires, said.at + lasts)
    return f"it ended at {ends:%Y-%m-%d %H:%M} UTC" if now >= ends else ""


def why_unsigned(approval: Approval, signers: Signers, now: datetime, env: Mapping[str, str]) -> str:
    """ "" for a signature that its signer may have made. Raises ReconcilerError."""
    said = approval.statement
    problem = verifies(said.to_bytes(), approval.signature, said.principal, signers.text.encode(), now, env)
    if not problem:
        return ""
    if "incorrect signature" in problem:
        return "its signature is not of this statement: it was changed after it was signed"
    may_not = f"does not let `{said.principal}` sign for `{NAMESPACE}` with this key now"
    return f"{signers.where} {may_not} ({problem})"


def in_force(rule: Rule, approvals: Sequence[Approval], now: datetime) -> Sequence[Approval]:
    """Those of `approvals`, which count, that the rule takes at this time."""
    return [each for each in approvals if not why_late(each, rule.lasts, now)]
