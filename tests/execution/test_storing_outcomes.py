"""While an outcome is stored, the next intent may be, too; the next call is sent only when both are."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from reconciler.core.errors import StoreError
from reconciler.core.reporter import Reporter
from reconciler.state.store import Event, JournalEntry
from tests.execution.stage import Stage, cluster, outcomes, volume

FIRST, SECOND = "Volume/shop/data#create", "Volume/shop/more#create"
_PATIENCE_S = 10  # until a test that waits for what never comes has failed


@pytest.fixture
def slow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> "SlowOutcomes":
    """One call at a time; its outcome is stored only when the next intent is."""
    stage.limit(concurrency=1)
    slow = SlowOutcomes(stage)
    monkeypatch.setattr(stage.store, "commit", slow.commit)
    return slow


class SlowOutcomes:
    """Holds back the outcome of `FIRST`. `sent`: how many calls had been sent when it was stored."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._commit = stage.store.commit
        self._intended = anyio.Event()
        self.sent = 0
        self.fails = False

    async def commit(self, lease: Any, entries: Sequence[JournalEntry], *changes: Any) -> Any:
        said = [(entry.step, entry.event) for entry in entries]
        if said[0][0] == FIRST and said[0][1] in (Event.DONE, Event.UNKNOWN):
            with anyio.move_on_after(_PATIENCE_S):
                await self._intended.wait()
            for _ in range(50):  # as long as it takes to send a call that nothing keeps back
                await checkpoint()
            self.sent = len(self._stage.line.mutations)
            if self.fails:
                raise StoreError("the disk is full")
        stored = await self._commit(lease, entries, *changes)
        if said == [(SECOND, Event.INTENT)]:
            self._intended.set()
        return stored


async def events(stage: Stage) -> list[tuple[str, Event]]:
    return [(entry.step, entry.event) for _, entry in await stage.store.journal() if entry.step]


async def test_the_next_intent_does_not_wait_for_an_outcome(stage: Stage, slow: SlowOutcomes) -> None:
    applied = await stage.apply(volume() + volume("more"))
    assert outcomes(applied) == {FIRST: "done", SECOND: "done"}
    assert await events(stage) == [
        (FIRST, Event.INTENT),
        (SECOND, Event.INTENT),
        (FIRST, Event.DONE),
        (SECOND, Event.DONE),
    ]


async def test_the_intent_of_a_call_that_only_a_person_can_settle_waits_for_the_outcomes_before_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.limit(concurrency=1)
    commit, seen = stage.store.commit, list[tuple[str, Event]]()

    async def slow(lease: Any, entries: Sequence[JournalEntry], *changes: Any) -> Any:
        if entries[0].event is Event.DONE:
            for _ in range(200):
                await checkpoint()
        stored = await commit(lease, entries, *changes)
        seen.extend((each.step, each.event) for each in entries if each.event in (Event.INTENT, Event.DONE))
        return stored

    monkeypatch.setattr(stage.store, "commit", slow)
    await stage.apply(volume() + cluster() + volume("more"))
    at = seen.index(("PostgresCluster/orders#create", Event.INTENT))
    sent = {step for step, event in seen[:at] if event is Event.INTENT}
    assert sent
    assert sent == {step for step, event in seen[:at] if event is Event.DONE}


async def test_the_next_call_waits_for_the_outcome_before_it(stage: Stage, slow: SlowOutcomes) -> None:
    await stage.apply(volume() + volume("more"))
    assert slow.sent == 1
    assert stage.line.mutations == ["POST", "POST"]


async def test_after_an_outcome_that_cannot_be_stored_nothing_is_sent_and_no_call_is_open(
    stage: Stage, slow: SlowOutcomes
) -> None:
    slow.fails = True
    applied = await stage.apply(volume() + volume("more"))
    assert outcomes(applied) == {FIRST: "failed", SECOND: "skipped"}
    assert stage.line.mutations == ["POST"]
    assert await stage.open_steps() == []  # the outcome of the first one was spooled


async def test_after_an_outcome_that_stays_unknown_nothing_is_sent(stage: Stage, slow: SlowOutcomes) -> None:
    slow.fails = True
    stage.fault(method="POST", path="*", action="drop_after")
    applied = await stage.apply(volume() + volume("more"))
    assert outcomes(applied) == {FIRST: "unknown", SECOND: "skipped"}
    assert stage.line.mutations == ["POST"]
    assert await stage.open_steps() == [FIRST]


async def test_one_outage_of_the_store_is_told_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, sent = stage.store.commit, anyio.Event()

    async def out_of_order(lease: Any, entries: Sequence[JournalEntry], *changes: Any) -> Any:
        if entries[0].event is Event.DONE:
            with anyio.move_on_after(_PATIENCE_S):
                await sent.wait()
            raise StoreError("the store cannot be reached")
        stored = await commit(lease, entries, *changes)
        if entries[0].step == "Volume/shop/v3#create":
            sent.set()
        return stored

    monkeypatch.setattr(stage.store, "commit", out_of_order)
    applied = await stage.apply("".join(volume(f"v{number}") for number in range(4)))
    errors = [result.error for result in applied.results]
    said = [error for error in errors if error.startswith("the call took effect (vol_")]
    first, *others = sorted(said, key=len, reverse=True)
    assert "but the state cannot be written: the store cannot be reached" in first
    assert others
    assert all(error.endswith("): written to the same file") for error in others)


def test_only_the_first_note_of_an_outage_has_its_reason() -> None:
    notes: list[str] = []
    reporter = Reporter()
    reporter.note = notes.append  # type: ignore[method-assign, assignment]
    for what in ("the lease could not be renewed", "the lease could not be released"):
        reporter.failed(what, "no route")
    reporter.failed("the end could not be recorded", "the disk is full")
    assert notes == [
        "the lease could not be renewed: no route",
        "the lease could not be released",
        "the end could not be recorded: the disk is full",
    ]
