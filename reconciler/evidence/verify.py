"""Verifies a bundle offline, from its bytes alone, and shows the facts that it proves."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.approvals.ssh import verifies, why_not_signed
from reconciler.approvals.statement import Statement, parse_statement
from reconciler.core.errors import ReconcilerError
from reconciler.core.words import counted
from reconciler.evidence.archive import Damaged, digest, unpack
from reconciler.evidence.bundle import HEAD, PLAN, REHEARSAL, Proven, approvals_of, proven
from reconciler.reports.escape import visible
from reconciler.reports.report import Page
from reconciler.state.runs import history_of
from reconciler.state.store import Run


class Verified(Struct, frozen=True):
    """`rows`: the journal of the run. `head`: of the state right after the run. `parts`: their names.

    `approvals`: as signed. `allowed`: allowed signers have their keys.
    """

    rows: Proven
    head: str
    parts: tuple[str, ...]
    approvals: tuple[Statement, ...]
    allowed: bool


def verify(data: bytes, *, head: str = "", signers: bytes | None = None, env: Mapping[str, str]) -> Verified:
    """Return the facts that a bundle proves. Raises Damaged with the part that was altered.

    `head`: the one that apply printed; "" where nobody kept it. `signers`: the allowed signers; None for any.
    """
    parts = unpack(data)
    rows = proven(parts)
    of_head = digest(parts[HEAD])
    if head and of_head != head.lower():
        raise Damaged(HEAD, f"the state's head is {of_head}, not {head}")
    if PLAN in parts and rows.started.data.get("digest") != digest(parts[PLAN]):
        raise Damaged(PLAN, "it is not the plan that the run carried out")
    signed = _approvals(parts, rows, signers, env)
    if REHEARSAL in parts:
        named = {statement.rehearsal for statement in signed}
        if digest(parts[REHEARSAL]) not in named:
            raise Damaged(REHEARSAL, "no approval was given to this rehearsal")
    return Verified(rows, of_head, tuple(sorted(parts)), tuple(signed), signers is not None)


def _approvals(
    parts: Mapping[str, bytes], rows: Proven, signers: bytes | None, env: Mapping[str, str]
) -> list[Statement]:
    used = list(approvals_of(rows.started))
    names = {name for name in parts if name.startswith("approvals/")}
    found = []
    for number, approval in enumerate(used, start=1):
        statement, signature = (f"approvals/{number:02}.{kind}" for kind in ("statement", "signature"))
        for name, kind in ((statement, "statement"), (signature, "signature")):
            if name not in parts or parts[name].decode(errors="replace") != approval.get(kind):
                raise Damaged(name, "it is not what the run used")
        names -= {statement, signature}
        if approval.get("id") != f"approval-{digest(parts[statement])}":
            raise Damaged(statement, "the run used another approval")
        said = _said(statement, parts[statement], rows)
        if signers is None:
            why = why_not_signed(parts[statement], parts[signature], env)
        else:
            at = rows.started.at
            why = verifies(parts[statement], parts[signature], said.principal, signers, at, env)
        if why:
            raise Damaged(signature, f"`{said.principal}` did not sign this, or may not: {why}")
        found.append(said)
    if names:
        raise Damaged(min(names), "the run used no such approval")
    return found


def _said(name: str, text: bytes, rows: Proven) -> Statement:
    """The signed statement. Raises Damaged where it is about another run, or had expired."""
    try:
        said = parse_statement(text, name)
    except ReconcilerError as failure:
        raise Damaged(name, failure.message) from None
    began = Run.from_json(rows.started.data)
    if said.plan != began.digest:
        raise Damaged(name, "it is for another plan")
    if said.environment != began.environment:
        raise Damaged(name, f"it is for environment `{said.environment}`")
    if said.lineage != rows.lineage:
        raise Damaged(name, "it is for another state")
    if said.expires <= rows.started.at:
        raise Damaged(name, f"it ended at {said.expires:%Y-%m-%d %H:%M} UTC, before the run began")
    return said


# --- as a page ---


def damaged_page(file: str, damaged: Damaged) -> Page:
    """The refusal of a bundle, with the part that was altered."""
    document = {"verify": {"file": file, "verified": False, "part": damaged.part, "why": damaged.why}}
    return Page(document=document, text=visible(f"{file} is refused: {damaged.part}: {damaged.why}") + "\n")


def verified_page(file: str, found: Verified, *, has_head: bool) -> Page:
    """The facts of a verified bundle. `has_head`: the head was compared with a given one."""
    run = next(run for run in history_of(found.rows.entries).runs if run.id == found.rows.run)
    plan = run.began.digest
    approvals = [
        {"principal": by.principal, "allowed": found.allowed or None, "reason": by.reason}
        for by in found.approvals
    ]
    document = {
        "verify": {
            "file": file,
            "verified": True,
            "run": run.id,
            "actor": run.began.actor or None,
            "reason": run.began.reason or None,
            "environment": run.began.environment or None,
            "began": run.began_at.isoformat(),
            "ended": run.ended_at.isoformat() if run.ended_at is not None else None,
            "outcome": run.ended(),
            "outcomes": dict(run.outcomes),
            "manifests": run.began.resources or None,
            "plan": plan or None,
            "approvals": approvals,
            "head": found.head,
            "head_checked": has_head,
            "parts": list(found.parts),
        }
    }
    facts = {
        "run": run.id,
        "by": run.began.actor,
        "reason": run.began.reason,
        "environment": run.began.environment,
        "began": run.began_at.isoformat(),
        "ended": f"{run.ended()}; {counted(len(run.calls), 'call')}",
        "manifests": run.began.resources,
        "plan": plan and f"{plan}{'' if PLAN in found.parts else ' (only its digest)'}",
        "head": f"{found.head}{'' if has_head else ' (compare it with the one that apply printed)'}",
    }
    lines = [f"{file} is what was written."]
    lines += [f"  {name + ':':<13}{visible(str(value))}" for name, value in facts.items() if value]
    for by in found.approvals:
        known = "" if found.allowed else " (any key: give --allowed-signers)"
        lines.append(f"  {'approved by:':<13}{visible(by.principal)}{known}: {visible(by.reason)}")
    return Page(document=document, text="\n".join(lines) + "\n")
