"""Looks: what an apply keeps of the objects that it saw, and how it is folded."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.errors import StoreError
from reconciler.core.model import Address, StateRecord
from reconciler.kinds.roles import Look
from reconciler.project import looks
from reconciler.project.looks import fold, record_looks, recorded_looks
from reconciler.services.machines.wire.volume import Volume
from reconciler.state.chain import state_head
from reconciler.state.store import JournalEntry, Lease, Store
from tests.execution.stage import START, Notes, Stage, cluster, plan, volume
from tests.state.doubles import spooling

HOUR, DAY, MIB = 60, 24 * 60, 2**20
NOW = 600 * DAY + 5 * HOUR

times = st.integers(NOW - 500 * DAY, NOW + DAY)
numbers = st.integers(-1, 2**40)
rows = st.lists(st.tuples(times, numbers, numbers, numbers, st.integers(-1, 1)), max_size=60)


def periods(kept: Sequence[looks.Row], now: int) -> list[tuple[int, int]]:
    """The six hours, or beyond 30 days the day, that each row stands for."""
    lengths = [6 * HOUR if now - row[0] <= 30 * DAY else DAY for row in kept]
    return [(length, row[0] // length) for length, row in zip(lengths, kept, strict=True)]


@given(rows)
def test_one_look_stays_of_each_period_and_it_is_the_newest(found: list[looks.Row]) -> None:
    kept = fold(found, NOW)
    assert [row[0] for row in kept] == sorted(row[0] for row in kept)
    assert len({*periods(kept, NOW)}) == len(kept)
    wanted = [row for row in found if 0 <= NOW - row[0] <= 400 * DAY]
    newest: dict[tuple[int, int], looks.Row] = {}
    for row, period in zip(wanted, periods(wanted, NOW), strict=True):
        held = max(row[4], newest.get(period, row)[4])
        newest[period] = (*max(row[:4], newest.get(period, row)[:4]), held)
    assert {*kept} == {*newest.values()}


@given(rows, st.integers(0, 100 * DAY))
def test_folding_early_changes_nothing_of_what_stays_later(found: list[looks.Row], later: int) -> None:
    past = [row for row in found if row[0] <= NOW]
    assert fold(fold(past, NOW), NOW + later) == fold(past, NOW + later)


@given(rows)
def test_what_is_packed_reads_back_the_same(found: list[looks.Row]) -> None:
    if found:
        assert looks._unpack(looks._pack(found)) == found


def test_four_hundred_days_of_looks_stay_as_many_as_the_days_and_the_last_quarters() -> None:
    every_hour = [(NOW - hour * HOUR, 10, 1, 10240, 1) for hour in range(500 * 24)]
    assert len(fold(every_hour, NOW)) == pytest.approx(30 * 4 + 370, abs=2)


async def seen(stage: Stage) -> dict[tuple[str, str], Sequence[Look]]:
    state = await stage.store.load()
    notes = [note.applied for name, note in state.remembered.items() if name.startswith("looks:")]
    keys = [(kind, id) for note in notes for kind, id in (key.split("/") for key in note)]
    return {key: recorded_looks(state, *key) for key in keys}


async def test_an_apply_keeps_a_look_at_each_object_in_its_lists(stage: Stage) -> None:
    other = stage.make_volume("theirs", 7)
    await stage.apply(volume())
    assert await seen(stage) == {
        ("Volume", other): (Look(START, 7, 358 * MIB, 7 * 1024 * MIB, attached=False),)
    }


async def test_a_cluster_has_looks_too(stage: Stage) -> None:
    await stage.apply(cluster())
    await stage.apply(cluster())
    ((key, (look,)),) = (await seen(stage)).items()
    assert key[0] == "PostgresCluster"
    assert (look.size_gb, look.attached) == (10, None)


async def test_a_look_is_written_once_in_six_hours_and_says_since_when_a_volume_has_a_machine(
    stage: Stage,
) -> None:
    id = stage.make_volume()
    await stage.apply(volume())
    version = (await stage.store.load()).version
    await stage.time.sleep(6 * 3600 - 60)
    await stage.apply(volume())
    assert (await stage.store.load()).version == version
    stage.hold()
    await stage.time.sleep(60)
    await stage.apply(volume())
    found = (await seen(stage))["Volume", id]
    assert [(look.at - START, look.attached) for look in found] == [
        (timedelta(0), False),
        (timedelta(hours=6), True),
    ]


async def test_a_machine_that_comes_and_goes_within_six_hours_is_remembered(stage: Stage) -> None:
    id = stage.make_volume()
    for minutes, attached in ((0, False), (10, True), (20, False), (30, True)):
        seen_at = START + timedelta(minutes=minutes)
        await record_looks(stage.project(), {f"Volume/{id}": Look(seen_at, 3, attached=attached)})
    assert (await seen(stage))["Volume", id] == (Look(START + timedelta(minutes=10), 3, attached=True),)


async def test_a_look_at_one_object_leaves_those_at_others_and_forgets_what_is_long_gone(
    stage: Stage,
) -> None:
    keys = (f"Volume/vol_{number}" for number in range(10_000))
    old, kept, new = islice((key for key in keys if looks._note(key) == looks._note("Volume/vol_0")), 3)
    for days, key in ((0, old), (1, kept), (401, new)):
        await record_looks(stage.project(), {key: Look(START + timedelta(days=days), 3)})
    assert {"/".join(key) for key in await seen(stage)} == {kept, new}


async def test_a_plan_and_a_declined_apply_keep_nothing(stage: Stage) -> None:
    stage.make_volume()
    await plan(stage, volume())
    await stage.apply(volume(), approve=lambda plan: False)
    assert await seen(stage) == {}


class NoNotes(Store):
    """Takes no commit that is about no object."""

    async def commit(
        self,
        lease: Lease,
        entries: Sequence[JournalEntry],
        put: Sequence[StateRecord] = (),
        remove: Sequence[Address] = (),
    ) -> Sequence[StateRecord]:
        if any("looks" in record.address.name for record in put):
            raise StoreError("the disk is full")
        return await super().commit(lease, entries, put, remove)


async def test_an_apply_whose_look_cannot_be_written_is_done_and_says_so(stage: Stage) -> None:
    stage.make_volume("theirs")
    stage.store = spooling(NoNotes(stage.store.inner), stage.time, stage.root)
    stage.reporter = notes = Notes()
    applied = await stage.apply(volume())
    assert [result.outcome for result in applied.results] == ["done"]
    assert notes.told == ["what was seen is not recorded: the disk is full"]


async def test_a_look_is_no_decision_that_the_journal_tells(stage: Stage) -> None:
    stage.make_volume()
    await stage.apply(volume())
    said = [entry.data for _, entry in await stage.store.journal()]
    assert not [data for data in said if "looks" in str(data)]


async def test_the_head_that_an_apply_names_is_that_after_its_look(stage: Stage) -> None:
    stage.make_volume("theirs")
    applied = await stage.apply(volume())
    state = await stage.store.load()
    assert applied.head == state_head(state.lineage, state.heads)


def test_only_what_is_there_under_a_valid_id_is_looked_at() -> None:
    found = [Volume(id="vol_1"), Volume(id="vol_2", state="pending_destroy"), Volume(id="../x")]
    assert looks.looks_at(found, START).keys() == {"Volume/vol_1"}


def test_amounts_are_kept_to_the_mib() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    look = Look(at, 1, 3 * 2**20 + 5, 2**30, True)
    assert looks._look(looks._row(look)) == Look(at, 1, 3 * 2**20, 2**30, True)
    assert looks._look(looks._row(Look(at))) == Look(at)
