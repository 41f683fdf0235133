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
