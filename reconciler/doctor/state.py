"""The state: whether it exists and is intact, who has locked it, and the open calls of earlier runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from reconciler.core.advice import command
from reconciler.core.errors import Locked, named
from reconciler.core.model import owed_work
from reconciler.core.words import counted
from reconciler.doctor.check import Check, fine, suspicious, wrong
from reconciler.execution.open_intents import sender
from reconciler.project.identity import refuse_other_platform, refuse_other_state, state_missing
from reconciler.project.settings import ProjectSettings
from reconciler.state import backend_of
from reconciler.state.spooling import Spooling
from reconciler.state.store import Backups, JournalEntry, State

_SHOWN = 5  # of a list: a line has to stay readable


async def check_state(
    store: Spooling, state: State, config: ProjectSettings, place: str, remarks: Sequence[str]
) -> Check:
    """Check that the state is the expected one and intact. Raises ReconcilerError where every run refuses it.

    `remarks`: the notes from opening it.
    """
    pin, address = config.settings.state.lineage, config.settings.platform.base_url
    if pin is not None:
        refuse_other_state(state, pin, place)
    if address is not None and not config.emulated:
        refuse_other_platform(state, address, place)
    if not state.lineage and config.emulated:
        return suspicious("state", f"there is no state at {place} yet", "the first plan or apply creates it")
    if not state.lineage:
        missing = state_missing(place, traces=state.traces)
        return wrong("state", missing.message, missing.help, *missing.advice)
    await backend_of(store).verify()
    what = f"{place} is intact: {counted(len(state.records), 'record')}, lineage {state.lineage}"
    if remarks:
        return suspicious("state", f"{what}; {'; '.join(remarks)}")
    return fine("state", what)


def check_lock(holders: Mapping[str, Locked]) -> Check:
    """`holders`: the held locks by scope."""
    if not holders:
        return fine("lock", "no process holds a lock")
    held = [
        f"{named(scope)} by {lock.holder} for {lock.age_s:.0f} s{lock.doubt}"
        for scope, lock in sorted(holders.items())
    ]
    unlock = command("state", "unlock", *sorted(holders), "--force")
    return suspicious(
        "lock",
        f"locked: {some(held)}",
        "wait for that process; if it dies, its locks are released automatically; if it hangs, break them "
        f"with `{unlock}`",
        unlock,
    )


def check_owed(state: State) -> Check:
    """Work that earlier changes left to a person, such as restarts."""
    owed = owed_work(state.records)
    if not owed:
        return fine("owed", "nothing")
    works = [f"{item.address}: {item.work} ({item.certainty}), because {item.because}" for item in owed]
    done = owed[0].advice[0]
    return suspicious("owed", some(works), f"do this work, then record it, such as with `{done}`", done)


def check_open(state: State, holders: Mapping[str, Locked]) -> Check:
    """Calls without an outcome, and outcomes that no record holds yet."""
    left = [_call(opened) for opened in state.open_intents if sender(opened, holders) is None]
    under_way = [_call(opened) for opened in state.open_intents if sender(opened, holders) is not None]
    plan, listed = command("plan"), command("state", "list")
    if left:
        help = f"`{plan}` says how each call is settled"
        return wrong("open calls", f"without an outcome: {some(left)}", help, plan)
    if state.spooled:
        scopes = some([f"`{scope}`" for scope in sorted(state.spooled)])
        return suspicious(
            "open calls",
            f"outcomes that could not be stored are in a file beside the state; scopes: {scopes}",
            "the next apply of those resources stores these outcomes",
        )
    if state.unclaimed:
        found = [str(entry.data["unclaimed"]) for entry in state.unclaimed]
        help = f"`{listed}` says what to do about them"
        return suspicious("open calls", f"made by a call, without a record: {some(found)}", help, listed)
    if under_way:
        return fine("open calls", f"under way now: {some(under_way)}")
    return fine("open calls", "none")


def check_backups(backups: Backups | None, state: State | None, now: datetime) -> Check:
    """`backups`: None for a shared state, which keeps none next to itself."""
    make = command("state", "backup")
    if backups is None:
        copy = command("state", "backup", "FILE")
        return fine(
            "backups",
            "cannot be seen from here: look at the database's own backups, or at the bucket's versions; "
            f"`{copy}` makes a copy",
        )
    if backups.bad:
        damaged = some(list(map(str, backups.bad)))
        since = f"; the newest good one is from {_moment(backups.newest)}" if backups.newest else ""
        return suspicious("backups", f"damaged: {damaged}{since}", f"`{make}` creates a new one", make)
    if backups.newest is not None:
        days = (now - backups.newest).days
        return fine("backups", f"the newest is from {_moment(backups.newest)} ({counted(days, 'day')} ago)")
    if state is None or not state.lineage:
        return suspicious("backups", "no backup; what a lost state knew is not known")
    if not state.records:
        return fine("backups", "no backup; the state has no records that could be lost")
    return suspicious(
        "backups", "none", f"each apply that changes something creates one; so does `{make}`", make
    )


def _call(opened: JournalEntry) -> str:
    """An open call for people: method, path, address and time."""
    call = " ".join(str(opened.data[name]) for name in ("method", "path") if name in opened.data)
    return f"{call or 'a call'} for {opened.address}, sent at {_moment(opened.at)}"


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else "never"


def some(texts: Sequence[str]) -> str:
    """The first five texts in one line, and the number of the others."""
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
