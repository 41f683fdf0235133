"""Intents that an earlier run left without an outcome: settled before anything else is planned or sent."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from reconciler.core.advice import command
from reconciler.core.clock import Clock
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, error
from reconciler.core.errors import PlatformError
from reconciler.core.model import Address, Obligation, StateRecord, owing
from reconciler.core.reporter import Reporter
from reconciler.execution.intents import Intent
from reconciler.execution.leasing import leased
from reconciler.execution.limits import Limits
from reconciler.execution.recorder import Recorder
from reconciler.execution.settling import Settlement, candidates, judge, left_of_window, settle
from reconciler.services.registry import Services
from reconciler.state.spooling import Spooling
from reconciler.state.store import JournalEntry, State


def parse_intent(opened: JournalEntry) -> Intent:
    return Intent.from_json(opened.data)


async def settle_open(
    store: Spooling,
    *,
    services: Services,
    clock: Clock,
    reporter: Reporter,
    limits: Limits,
    holder: str,
    timeout_s: float,
    concerned: Callable[[State], Collection[str]],
) -> Mapping[Address, str]:
    """Close every open intent that evidence can close, under the leases of their scopes.

    Returns why the others are left open, by address.

    Taking the lease also takes in what an earlier run had to keep aside (`Spooling.spool`).
    `concerned`: the scopes that this run is about; a process at work on another one is left alone.
    """
    state = await store.load()
    left = {parse_intent(opened).scope for opened in state.open_intents} | state.spooled
    scopes = left & set(concerned(state))
    undecided: dict[Address, str] = {}
    if not scopes:
        return undecided
    async with leased(store, scopes, holder, timeout_s=timeout_s, reporter=reporter) as lease:
        state = await store.load()
        records = state.records
        for opened in state.open_intents:
            intent = parse_intent(opened)
            if intent.scope not in scopes:
                continue
            recorder = Recorder(store, lease, opened.run, clock, records)
            records = recorder.records
            if intent.if_unknown == "repeat":
                await clock.sleep(left_of_window(opened.at, clock, limits.repeat_after_s))
                await _close_absolute(recorder, opened, intent, clock)
                continue
            assert opened.address is not None
            if intent.if_unknown == "find":
                reporter.settling(opened.address, limits.settle_s)
            settlement = await settle(
                intent,
                opened.at,
                services=services,
                clock=clock,
                limits=limits,
                tracked=recorder.tracked_ids,
            )
            if settlement.kind == "undecided":
                undecided[opened.address] = settlement.why
            await _close(recorder, opened, intent, settlement)
    return undecided


async def overlay(
    state: State,
    *,
    services: Services,
    clock: Clock,
    limits: Limits,
    concerned: Collection[str],
    undecided: Mapping[Address, str] | None = None,
) -> tuple[Mapping[Address, StateRecord], Mapping[Address, Diagnostic]]:
    """The records as they would be once open intents are settled, and what cannot be settled yet.

    Waits for nothing and writes nothing. `concerned`: the scopes to answer for. `undecided`: what
    `settle_open` found, which looked well; without it (for verbs that only read) one look has to do.
    """
    records = dict(state.records)
    questions: dict[Address, Diagnostic] = {}
    for opened in state.open_intents:
        intent = parse_intent(opened)
        if opened.address is None or intent.scope not in concerned:
            continue
        if intent.if_unknown == "repeat":
            after = _after_absolute(opened, intent, records.get(opened.address), clock.now())
            if after is not None:
                records[opened.address] = after
            continue
        settlement = Settlement("undecided", why="nothing on the platform can tell")
        if undecided is not None:
            why = undecided.get(opened.address, "it was sent a moment ago, by another run")
            settlement = Settlement("undecided", why=why)
        elif intent.if_unknown == "find" and intent.find is not None:
            settlement = await _look(intent, services, {record.id for record in records.values()}, limits)
            if left_of_window(opened.at, clock, limits.settle_s):
                settlement = Settlement("undecided", why="it may still show up; the next apply waits for it")
        if settlement.kind == "landed":
            record = records.get(opened.address)
            made = intent.settled_record(opened.address, record, settlement.id, opened.at)
            if made is not None:
                records[opened.address] = made
        elif settlement.kind == "undecided":
            questions[opened.address] = describe(opened, intent, settlement.why)
    return records, questions


def describe(opened: JournalEntry, intent: Intent, why: str) -> Diagnostic:
    """The question to a person: what was sent when, and the two answers."""
    name = intent.applied.get("name", opened.address.name if opened.address else "")
    region = intent.applied.get("region")
    where = f" in {region}" if region else ""
    address = opened.address if opened.address is not None else "ADDRESS"
    ways = tuple(command("resolve", address, *answer) for answer in (("--adopt", "ID"), ("--not-created",)))
    return error(
        UNKNOWN_OUTCOME,
        f"the outcome of {intent.method} {intent.path} for `{opened.address}` is unknown "
        f"(`{name}`{where}, sent at {opened.at:%Y-%m-%d %H:%M:%S} UTC): {why}",
        help=f"look on the platform, then run one of\n  {ways[0]}\n  {ways[1]}",
        advice=ways,
    )


async def _look(intent: Intent, services: Services, tracked: set[str], limits: Limits) -> Settlement:
    assert intent.find is not None
    try:
        observation = await services.read(intent.find)
    except PlatformError as failure:
        return Settlement("undecided", why=f"the platform could not be read: {failure.message}")
    return judge(intent, candidates(intent, observation.objects, tracked), limits)


async def _close(recorder: Recorder, opened: JournalEntry, intent: Intent, settlement: Settlement) -> None:
    if settlement.kind == "landed":
        assert opened.address is not None
        record = recorder.records.get(opened.address)
        made = intent.settled_record(opened.address, record, settlement.id, opened.at)
        await recorder.settle(opened, {"id": settlement.id, "inferred": True}, [made] if made else [])
    elif settlement.kind == "not_landed":
        await recorder.settle(opened, {"landed": False})


async def _close_absolute(recorder: Recorder, opened: JournalEntry, intent: Intent, clock: Clock) -> None:
    """An absolute call is simply planned again."""
    assert opened.address is not None
    record = recorder.records.get(opened.address)
    after = _after_absolute(opened, intent, record, clock.now())
    await recorder.settle(
        opened, {"absolute": True}, [after] if after is not None and after != record else []
    )


def _after_absolute(
    opened: JournalEntry, intent: Intent, record: StateRecord | None, now: datetime
) -> StateRecord | None:
    """The record in doubt, with the restart that the lost answer may have asked for."""
    assert opened.address is not None
    after = intent.in_doubt(opened.address, record, opened.at)
    if after is None or not intent.owes:
        return after
    return owing(after, Obligation("restart", intent.owes, "unknown", now))
