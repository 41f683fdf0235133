"""What a bundle proves, as a page."""

from reconciler.core.words import counted
from reconciler.evidence.archive import Damaged
from reconciler.evidence.verify import PLAN, Verified
from reconciler.reports.escape import visible
from reconciler.reports.report import Page
from reconciler.state.runs import history_of


def damaged_page(file: str, damaged: Damaged) -> Page:
    document = {"verify": {"file": file, "verified": False, "part": damaged.part, "why": damaged.why}}
    return Page(document=document, text=visible(f"{file} is refused: {damaged.part}: {damaged.why}") + "\n")


def verified_page(file: str, found: Verified, *, has_head: bool) -> Page:
    """`has_head`: somebody said which head it must have."""
    run = next(each for each in history_of(found.rows.entries).runs if each.id == found.rows.run)
    plan = run.began.digest
    approvals = [
        {"principal": each.principal, "allowed": each.known or None, "reason": each.reason}
        for each in found.approvals
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
    for each in found.approvals:
        known = "" if each.known else " (any key: give --allowed-signers)"
        lines.append(f"  {'approved by:':<13}{visible(each.principal)}{known}: {visible(each.reason)}")
    return Page(document=document, text="\n".join(lines) + "\n")
