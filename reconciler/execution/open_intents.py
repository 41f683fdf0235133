"""Settles intents that an earlier run left without an outcome, before anything else is planned or sent."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

import anyio

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.diagnostics import IN_FLIGHT, UNKNOWN_OUTCOME, Diagnostic, error, warning
from reconciler.core.errors import Locked
from reconciler.core.model import Address, Obligation, StateRecord, owing
from reconciler.core.reporter import Reporter
from reconciler.execution.intents import Intent
from reconciler.execution.leasing import leased
from reconciler.execution.limits import Limits
from reconciler.execution.recorder import Recorder
from reconciler.execution.settling import Evidence, Settlement, left_of_window, look
from reconciler.services.registry import Services
from reconciler.state.spooling import Spooling
from reconciler.state.store import JournalEntry, State


def parse_intent(opened: JournalEntry) -> Intent:
    """The intent of a journal entry of an open call."""
    return Intent.from_json(opened.data)


def sender(opened: JournalEntry, holders: Mapping[str, Locked]) -> Locked | None:
    """The holder of the call's scope, if it is the sender of the call; None otherwise."""
    held = holders.get(opened.data["scope"])
    return held if held is not None and opened.data.get("holder", "") in ("", held.holder) else None


async def settle_open(
    store: Spooling,
    state: State,
    *,
    services: Services,
    clock: Clock,
    reporter: Reporter,
    limits: Limits,
    holder: str,
    timeout_s: float,
    concerned: Callable[[State], Collection[str]],
) -> Mapping[Address, Settlement]:
    """Close every open intent that evidence can close, under the leases of their scopes.

    Returns by address why the others stay open. Taking a lease also ingests outcomes that an earlier run had
    to spool (`Spooling.spool`). `state`: as of a moment ago; it shows whether there is anything to do.
    `concerned`: the scopes of this run; processes that work on other scopes are not disturbed.
    """
    left = {parse_intent(opened).scope for opened in state.open_intents} | state.spooled
    scopes = left & set(concerned(state))
    undecided: dict[Address, Settlement] = {}
    if not scopes:
        return undecided
    async with leased(store, scopes, holder, timeout_s=timeout_s, reporter=reporter) as lease:
        state = await store.load()
        records = state.records
        settlements = await _settlements(state, scopes, services, clock, reporter, limits)
        for opened, settlement in settlements:
            intent = parse_intent(opened)
            assert opened.address is not None
            record, after = records.get(opened.address), None
            data: dict[str, str | bool] = {"landed": False}
            if settlement is None:  # the call is absolute: it is simply planned again
                data, after = {"absolute": True}, _after_absolute(opened, intent, record, clock.now())
            elif settlement.kind == "undecided":
                undecided[opened.address] = settlement
                continue
            elif settlement.kind == "landed":
                data = {"id": settlement.id, "inferred": True}
                after = intent.settled_record(opened.address, record, settlement.id, opened.at)
            recorder = Recorder(store, lease, opened.run, clock, records)
            await recorder.settle(opened, data, [after] if after is not None and after != record else [])
            records = recorder.records
    return undecided


async def _settlements(
    state: State,
    scopes: Collection[str],
    services: Services,
    clock: Clock,
    reporter: Reporter,
    limits: Limits,
) -> Sequence[tuple[JournalEntry, Settlement | None]]:
    """The settlement of every open call of `scopes`, in the journal's order; None if it may be repeated.

    The waits run in parallel.
    """
    tracked = {record.id for record in state.records.values()}
    evidence = Evidence(clock, limits, lambda: tracked)
    found: dict[int, Settlement | None] = {}

    async def find_out(number: int, opened: JournalEntry, intent: Intent) -> None:
        """Wait until the outcome of one call can be known, and note its settlement."""
        if intent.if_unknown == "repeat":
            await clock.sleep(left_of_window(intent, opened.at, clock, services, limits.repeat_after_s))
            found[number] = None
            return
        assert opened.address is not None
        tell = partial(reporter.settling, opened.address)
        found[number] = await evidence.settle(intent, opened.at, services, tell=tell)

    async with anyio.create_task_group() as group:
        for number, opened in enumerate(state.open_intents):
            if (intent := parse_intent(opened)).scope in scopes:
                group.start_soon(find_out, number, opened, intent)
    return [(state.open_intents[number], found[number]) for number in sorted(found)]


async def overlay(
    state: State,
    *,
    services: Services,
    clock: Clock,
    limits: Limits,
    concerned: Collection[str],
    holders: Mapping[str, Locked] | None = None,
    undecided: Mapping[Address, Settlement] | None = None,
) -> tuple[Mapping[Address, StateRecord], Mapping[Address, Diagnostic]]:
    """The records as they would be after open intents are settled, and a diagnostic for each that cannot be.

    It does not wait, and writes nothing. `concerned`: the scopes that matter. `holders`: by scope; an open
    call of a holder is under way, not a question. `undecided`: the result of `settle_open`; without it (for
    verbs that only read) one look at the platform decides.
    """
    records = dict(state.records)
    questions: dict[Address, Diagnostic] = {}
    for opened in state.open_intents:
        intent = parse_intent(opened)
        if opened.address is None or intent.scope not in concerned:
            continue
        if holders and (held := sender(opened, holders)):
            questions[opened.address] = _in_flight(opened, intent, held, clock.now())
            continue
        if intent.if_unknown == "repeat":
            after = _after_absolute(opened, intent, records.get(opened.address), clock.now())
            if after is not None:
                records[opened.address] = after
            continue
        settlement = Settlement("undecided", why="nothing on the platform shows its outcome")
        if undecided is not None:
            if opened.address not in undecided:
                questions[opened.address] = _sent_meanwhile(opened, intent)
                continue
            settlement = undecided[opened.address]
        elif intent.if_unknown == "find" and intent.find is not None:
            tracked = frozenset(record.id for record in records.values())
            settlement = await look(intent, services.read, services, tracked.copy, limits)
            if left_of_window(intent, opened.at, clock, services, limits.settle_s):
                why = "its effect may still appear; the next apply waits for it"
                settlement = Settlement("undecided", why=why, unread=True)
        if settlement.kind == "landed":
            record = records.get(opened.address)
            made = intent.settled_record(opened.address, record, settlement.id, opened.at)
            if made is not None:
                records[opened.address] = made
        elif undecided is None and intent.lifecycle.scratch:  # also where one list does not show it
            questions[opened.address] = _sent_meanwhile(opened, intent)
        elif settlement.kind == "undecided":
            questions[opened.address] = describe(opened, intent, settlement.why, later=settlement.unread)
    return records, questions


def describe(opened: JournalEntry, intent: Intent, why: str, *, later: bool = False) -> Diagnostic:
    """The question to a person: the call, its time, and the two possible answers.

    `later`: an apply may still find the answer. If it has looked in vain, the platform shows an object that
    this call may have made, and only `--force` says that it has not.
    """
    name = intent.applied.get("name", opened.address.name if opened.address else "")
    region = intent.applied.get("region")
    where = f" in {region}" if region else ""
    address = opened.address if opened.address is not None else "ADDRESS"
    force = ("--force",) if intent.if_unknown == "find" else ()
    answers = (("--adopt", "ID"), ("--not-created", *force))
    ways = [command("resolve", address, *answer) for answer in answers] if not later else [command("apply")]
    typed = "\n  ".join(map(str, ways))
    return error(
        UNKNOWN_OUTCOME,
        f"the outcome of {intent.method} {intent.path} for `{opened.address}` is unknown "
        f"(`{name}`{where}, sent at {opened.at:%Y-%m-%d %H:%M:%S} UTC): {why}",
        help=f"look on the platform, then run one of\n  {typed}" if not later else f"`{typed}` finds out",
        advice=tuple(ways),
        about=filter(None, (opened.address,)),
    )


async def load_with_holders(store: Spooling) -> tuple[State, Mapping[str, Locked]]:
    """The state, and the holders of the scopes of its open intents.

    An intent is open while its holder is running, or until it is settled. If an intent was open before the
    holders were read, is still open afterwards, and its scope had no holder, then no process works on it.
    """
    state, holders = await store.load(), dict[str, Locked]()
    while True:
        scopes = {parse_intent(opened).scope for opened in state.open_intents}
        if not scopes:
            return state, {}
        holders = dict(await store.holders(scopes))
        known = {(opened.run, opened.step, opened.attempt) for opened in state.open_intents}
        state = await store.load()
        new = [
            opened for opened in state.open_intents if (opened.run, opened.step, opened.attempt) not in known
        ]
        if all(parse_intent(opened).scope in holders for opened in new):
            return state, holders


def _in_flight(opened: JournalEntry, intent: Intent, held: Locked, now: datetime) -> Diagnostic:
    """The diagnostic for a call whose sender may still be running: no decision is needed yet."""
    sent_s = max(0.0, (now - opened.at).total_seconds())
    again = command("plan" if held.rest_s is None else "apply")
    when = "when that apply is done" if held.rest_s is None else "to find out what became of the call"
    return warning(
        IN_FLIGHT,
        f"{held.holder} has been applying `{opened.address}` for {held.age_s:.0f} s{held.doubt}: "
        f"{intent.method} {intent.path} was sent {sent_s:.0f} s ago, and has not been answered yet",
        help=f"no decision is needed: {when}, run `{again}`{' again' if held.rest_s is None else ''}",
        advice=(again,),
    )


def _sent_meanwhile(opened: JournalEntry, intent: Intent) -> Diagnostic:
    """The diagnostic for a call that the next run settles: of a sender that died, or of a drill."""
    again = command("drill" if intent.lifecycle.scratch else "apply")
    return warning(
        IN_FLIGHT,
        f"another run sent {intent.method} {intent.path} for `{opened.address}` at "
        f"{opened.at:%Y-%m-%d %H:%M:%S} UTC, and ended without an answer",
        help=f"no decision is needed: run `{again}` again, which finds out what became of it",
        advice=(again,),
    )


def _after_absolute(
    opened: JournalEntry, intent: Intent, record: StateRecord | None, now: datetime
) -> StateRecord | None:
    """The doubtful record, with the restart that the lost answer may have required."""
    assert opened.address is not None
    after = intent.in_doubt(opened.address, record, opened.at)
    if after is None or not intent.owes:
        return after
    return owing(after, Obligation("restart", intent.owes, "unknown", now))
