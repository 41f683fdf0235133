"""Whether there is a state, and whether it is the one that is meant.

A state that is lost, or another one by mistake, knows nothing: under it everything would be made again.
"""

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.errors import Refused
from reconciler.pipeline.project import Project
from reconciler.state.store import State


def state_missing(place: str, because: str = "", *, refused: bool = True) -> Diagnostic:
    """What to say where there is no state at `place`. `because`: what follows from it."""
    init, restore = command("state", "init"), command("state", "restore", "FILE")
    report = error if refused else warning
    return report(
        "state-missing",
        f"there is no state at {place}{because and f': {because}'}",
        help=f"for a project that begins, run `{init}`; if there was a state, check --state and "
        f"RECONCILE_STATE, or bring it back with `{restore}`",
        advice=(init, restore),
    )


def refuse_other_state(state: State, pin: str, place: str) -> None:
    """Raises Refused where `state`, which is at `place`, is not the one whose lineage is `pin`."""
    if state.lineage == pin:
        return
    found = f"the state at {place} has lineage {state.lineage}"
    help = "check --env, --state and RECONCILE_STATE"
    restore = command("state", "restore", "FILE")
    if not state.lineage:
        found = f"there is no state at {place}"
        help += f"; if the state was lost, bring it back with `{restore}`"
    problem = error(
        "other-state",
        f"{found}, and reconcile.yaml wants the one with lineage {pin}",
        help=help,
        advice=() if state.lineage else (restore,),
    )
    raise Refused("this is not the state of this project; nothing was changed", [problem])


async def require_state(project: Project) -> State:
    """The state. Raises Refused where there is none: nobody knows what was made before."""
    state = await project.store.load()
    refuse_missing(state, project.state_url)
    return state


def refuse_missing(state: State, place: str) -> None:
    """Raises Refused where `state`, which should be at `place`, does not exist."""
    if not state.lineage:
        problem = state_missing(place)
        raise Refused("there is no state; nothing was changed", [problem])
