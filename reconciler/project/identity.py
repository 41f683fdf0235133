"""Checks that there is a state, and that it is the one that is meant, of the platform that is meant.

A state that is lost, or another one by mistake, knows nothing: under it everything would be made again. And
the ids of one platform mean nothing on another.
"""

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from reconciler.core.advice import command
from reconciler.core.context import EMBEDDED
from reconciler.core.diagnostics import Diagnostic, error, warning
from reconciler.core.errors import Refused
from reconciler.core.model import Address
from reconciler.core.state_url import is_shared
from reconciler.core.words import counted
from reconciler.execution.decisions import Actor
from reconciler.project.project import Project
from reconciler.project.records import note_made
from reconciler.state import backend_of
from reconciler.state.store import WHOLE_STATE, Lease, State, Store


def state_missing(
    place: str, because: str = "", *, traces: Collection[str] = (), refused: bool = True
) -> Diagnostic:
    """The problem of a state that is not at `place`. `because`: what follows from it.

    `traces`: as of `State`.
    """
    move = command("state", "migrate", place, "--state", "URL")
    ways = command("state", "restore", "FILE"), move, command("state", "init")
    report = error if refused else warning
    was = f"there was a state: {', '.join(traces)} still exists;" if traces else "if there was a state,"
    return report(
        "state-missing",
        f"there is no state at {place}{because and f': {because}'}",
        help=f"{was} check --state, RECONCILE_STATE and --env; restore a backup with `{ways[0]}`; from "
        f"another place, `{ways[1]}` moves it; for a new project, run `{ways[2]}`",
        advice=ways,
    )


NEW_IGNORED = "--new changes nothing any more: what no list shows is created only with --approve-create"


async def create_state(store: Store, actor: Actor) -> bool:
    """Make the state, in a store that passes the probe; False where there is one already.

    It remembers when. Raises StoreError where traces of an older state are visible.
    """
    if not (await store.load()).lineage:
        await backend_of(store).probe()
    created = await store.create()
    if created:
        await note_made(store, actor)
    return created


def refuse_other_state(state: State, pin: str, place: str) -> None:
    """Raises Refused where `state`, which is at `place`, is not the one whose lineage is `pin`."""
    if state.lineage == pin:
        return
    found = f"the state at {place} has lineage {state.lineage}"
    help = "check --env, --state and RECONCILE_STATE"
    restore = command("state", "restore", "FILE")
    if not state.lineage:
        found = f"there is no state at {place}"
        help += (
            f"; if the state was lost, restore it with `{restore}`; without a backup, take `lineage` out of "
            "reconcile.yaml, and go on as the runbook says: a lost state without a backup"
        )
    problem = error(
        "other-state",
        f"{found}, but reconcile.yaml expects lineage {pin}",
        help=help,
        advice=() if state.lineage else (restore,),
    )
    raise Refused("this is not the state of this project; nothing was changed", [problem])


def perhaps_other_state(
    lineage: str, declared: Collection[Address], recorded: Iterable[Address], place: str
) -> Diagnostic | None:
    """The problem of a state whose records are in no app that the manifests declare anything in.

    Then a plan retains all that is recorded, as if it had been this project's. An error in a place that
    several machines reach: an apply would mix two projects there. None where nothing is wrong.
    """
    apps, others = {*map(_app, declared)}, list[Address]()
    for address in recorded if apps else ():
        if _app(address) in apps:
            return None  # most often the first: no look at the files of all others
        others.append(address)
    if not others:
        return None
    known = f"{counted(len(others), 'object')}, such as {min(map(str, others))}"
    report = error if is_shared(place) else warning
    return report(
        "perhaps-other-state",
        f"the state at {place} knows {known}, and "
        "these manifests declare nothing in the same apps: it may be the state of another project",
        help=f"if it is this project's, pin it in reconcile.yaml with `lineage: {lineage}` under `state`; if "
        "not, apply nothing here, and name another place (`state`, RECONCILE_STATE or --state)",
    )


def _app(address: Address) -> str:
    """The app of `address`; the address itself for an object outside of apps."""
    return address.app or str(address)


def refuse_other_platform(state: State, address: str, place: str) -> None:
    """Raises Refused where `state`, which is at `place`, is about another platform than that at `address`."""
    if not state.platform or _plain(state.platform) == _plain(address):
        return
    move = command("state", "set-platform", address)
    problem = error(
        "other-platform",
        f"the state at {place} belongs to the platform at {state.platform}, not to the one at {address}",
        help="check RECONCILE_BASE_URL, --env and `platform.base_url` in reconcile.yaml; if the platform has "
        f"moved there, with all its objects, run `{move}`",
        advice=(move,),
    )
    raise Refused("the state belongs to another platform; nothing was changed", [problem])


async def remember_platform(project: Project, held: Lease, known: State) -> None:
    """Record the platform of this run, once, before the run writes anything else. `held`: its lease.

    `known`: the state as of a moment ago. The sandbox's own has no platform that lasts. Raises Refused where
    another run has just recorded another one.
    """
    if project.address in ("", EMBEDDED) or WHOLE_STATE in held.scopes:
        return
    if known.platform:  # it stays recorded
        return
    actor = project.actor().for_a_note(project.store)
    async with actor.leased(project.store, {WHOLE_STATE}) as lease:
        state = await project.store.load()
        refuse_other_platform(state, project.address, project.state_url)
        if not state.platform:
            await project.store.commit(lease, [actor.decided({"platform": project.address})])


async def set_platform(store: Store, url: str, actor: Actor) -> str:
    """The state belongs to the platform at `url` from now on; returns the address that it had before."""
    async with actor.leased(store, {WHOLE_STATE}) as lease:
        before = (await store.load()).platform
        if before != url:
            await store.commit(lease, [actor.decided({"platform": url})])
        return before


def _plain(url: str) -> str:
    """`url` without the differences that do not matter in an address."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.lower(), path=parts.path.rstrip("/")).geturl()


async def require_state(project: Project) -> State:
    """The state. Raises Refused where there is none: nobody knows what was made before."""
    state = await project.store.load()
    refuse_missing(state, project.state_url)
    return state


def refuse_missing(state: State, place: str) -> None:
    """Raises Refused where `state`, which should be at `place`, does not exist."""
    if not state.lineage:
        problem = state_missing(place, traces=state.traces)
        raise Refused("there is no state; nothing was changed", [problem])
