"""`reconcile drill`: restores what is to be proven restorable, looks at it, and deletes it again."""

from collections.abc import Sequence
from typing import Any

import click
from msgspec import to_builtins

from reconciler.cli import options
from reconciler.cli.addresses import AddressType
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, PENDING, argument, flag, verb
from reconciler.core.diagnostics import DRILL_FAILED, error
from reconciler.core.errors import Misused
from reconciler.core.model import Address
from reconciler.project.drill import Ran, run_drills
from reconciler.reports.report import Page


@verb("drill", *options.DECIDES, notifies=True, by_people=True)
def command(
    chosen: ChosenState,
    accept: bool = flag(
        "--accept",
        "Compare with no earlier drill of these: what has left their databases since was meant to.",
    ),
    drills: Sequence[Address] = argument(nargs=-1, metavar="[ADDRESS]...", type=AddressType("RestoreDrill")),
) -> int:
    """Restore into a scratch object, look at it, and delete it: the given RestoreDrills, or those due now.

    Nothing but the scratch object is changed. Exit 1 when a drill failed or could not be run, 4 when its
    scratch object is still there: the next run deletes it first.
    """
    if accept and not drills:
        raise click.UsageError("--accept is for the drills that are named")
    desired = chosen.load_desired()
    declared = {policy.address for policy in desired.policies}
    if unknown := [drill for drill in drills if drill not in declared]:
        raise Misused(f"no manifest declares {unknown[0]}", ())

    async def work(watch: Watch) -> Sequence[Ran]:
        async with chosen.project(desired.resources, desired.policies, read_only=False) as project:
            return await run_drills(project, desired, drills, watch.follow, accept=accept)

    ran = run_watched(work)
    documents = [_document(one) for one in ran]
    text = "".join(map(_text, ran)) or "No drill is due.\n"
    failed = [one for one in ran if not one.passed]
    problems = [error(DRILL_FAILED, f"`{one.of}`: {_why(one)}", about=(one.of,)) for one in failed]
    emit(Page(document={"drills": documents}, text=text, diagnostics=tuple(problems)))
    left = any(one.left is not None for one in ran)
    return FAILED if failed else PENDING if left else DONE


def _document(ran: Ran) -> dict[str, Any]:
    result = to_builtins(ran.result) if ran.result is not None else {"why": ran.why}
    left = str(ran.left) if ran.left is not None else None
    return {"drill": str(ran.drill), "of": str(ran.of), "ran": ran.result is not None, "left": left, **result}


def _why(ran: Ran) -> str:
    """Why the drill did not pass."""
    return f"failed: {ran.result.why}" if ran.result is not None else f"not run: {ran.why}"


def _text(ran: Ran) -> str:
    result, lines = ran.result, [f"{ran.of} ({ran.drill.name}): {_why(ran)}"]
    if result is not None:
        said = "passed" if result.passed else _why(ran)
        done = result.recovery_s is not None
        restored = f"restored {result.copy}, {result.shown}" if done else "nothing was restored"
        lines = [f"{ran.of} ({ran.drill.name}): {said}; {restored}"]
        lines += [f"  {check.verdict}: {check.name}: {check.detail}" for check in result.checks]
    if ran.left is not None:
        lines.append(f"  {ran.left} is still there: the next drill deletes it")
    return "".join(f"{line}\n" for line in lines)
