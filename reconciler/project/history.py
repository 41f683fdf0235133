"""Reads the journal: what was done to a project's objects, by whom and why."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.manifests.validation.references import nearest_address
from reconciler.state.runs import NOTED, Decision, History, PastRun, history_of
from reconciler.state.store import Event, JournalEntry, Store

_MOST_NAMED = 5  # of the runs that an abbreviation fits


class Found(Struct, frozen=True):
    """`running`: the ids of the runs whose process is at work. `names`: what is asked about was called so."""

    history: History
    running: frozenset[str] = frozenset()
    names: frozenset[Address] = frozenset()


async def find_history(store: Store, address: Address | None, since: datetime | None) -> Found:
    """All runs and decisions; those about `address`, of runs that did something at `since` or later.

    An address without [index] is all of a `count`; what it was called before a move is the same. Raises
    ReconcilerError where nothing was ever done to `address`.
    """
    journal = await store.journal(since=since)
    found = history_of(journal)
    names = _names(address, journal)
    if address is not None:
        texts = set(map(str, names))
        about = [
            run
            for run in found.runs
            if names.intersection(call.address for call in run.calls)
            or names.intersection(decision.address for decision in run.decisions)
            or texts.intersection(address for name in NOTED for address in run.addresses(name))
        ]
        found = History(about, [decision for decision in found.decisions if decision.address in names])
        if since is None and not found.runs and not found.decisions:
            known = {entry.address for _, entry in journal if entry.address is not None}
            raise ReconcilerError(
                f"nothing was ever done to `{address}`",
                help=nearest_address(address, known) or "check the address",
            )
    return Found(found, await _running(store, found.runs), names)


async def find_run(store: Store, prefix: str) -> tuple[PastRun, Sequence[Decision], bool]:
    """The run whose id begins with `prefix`, what was decided about its calls, and whether it is at work.

    Raises ReconcilerError where there is none, or more than one.
    """
    found = history_of(await store.journal())
    fitting = [run for run in found.runs if run.id.startswith(prefix)]
    listed = command("history")
    if not fitting:
        decided = any(decision.run.startswith(prefix) for decision in found.decisions)
        raise ReconcilerError(
            f"`{prefix}` is a decision, which the list shows whole"
            if decided
            else f"no run has an id that begins with `{prefix}`",
            help=f"`{listed}` lists the runs",
            advice=(listed,),
        )
    if len(fitting) > 1:
        ids = ", ".join(run.id for run in fitting[-_MOST_NAMED:])
        raise ReconcilerError(
            f"{len(fitting)} runs have an id that begins with `{prefix}`: {ids}", help="give more of the id"
        )
    (run,) = fitting
    later = [decision for decision in found.decisions if decision.run == run.id]
    return run, later, run.id in await _running(store, found.runs)


def _names(address: Address | None, journal: Sequence[tuple[str, JournalEntry]]) -> frozenset[Address]:
    """The addresses that `address` names, and those before it moved: all members of a `count`."""
    if address is None:
        return frozenset()
    members = [] if address.ordinal else [entry.address for _, entry in journal if entry.address is not None]
    names = {member for member in members if member._replace(ordinal=0) == address}
    texts = {str(address), *map(str, names)}
    for _, entry in reversed(journal):
        if entry.event is Event.DECIDED and entry.address is not None and entry.data.get("to") in texts:
            names.add(entry.address)
            texts.add(str(entry.address))
    return frozenset({address, *names})


async def _running(store: Store, runs: Sequence[PastRun]) -> frozenset[str]:
    """The unfinished runs that are the newest one of a scope which somebody holds."""
    newest = {scope: run for run in runs for scope in run.scopes}
    open_scopes = [scope for scope, run in newest.items() if run.ended_at is None]
    held = await store.holders(open_scopes) if open_scopes else {}
    return frozenset(newest[scope].id for scope in held)
