"""Outcomes that the database could not take: spooled, shown at once, taken in by the next lease."""

import dataclasses
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.core.errors import StoreError
from reconciler.core.model import Address
from reconciler.state import backend_of, spool_file
from reconciler.state.places.sqlite.files import spool_path
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import Event, Lease, State
from tests.state.worlds import DATA, NOON, SimulatedClock, entry, record

LOGS = Address("Volume", "logs", "shop")
POSTS = Address("Volume", "posts", "shop")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files of this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


OpenStore = Callable[[], Spooling]


@pytest.fixture
async def another(path: Path, clock: SimulatedClock) -> AsyncIterator[OpenStore]:
    """Opens one more store of the same state; all are closed at the end."""
    stores: list[Spooling] = []

    def open_one() -> Spooling:
        stores.append(Spooling(SqliteStore(path, clock), spool_path(path), clock))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def store(another: OpenStore) -> Spooling:
    made = another()
    await made.create()
    return made


async def verify(store: Spooling) -> None:
    await backend_of(store).verify()


@pytest.fixture
async def lease(store: Spooling) -> Lease:
    """A lease under which the call of step s1 was sent."""
    lease = await store.lease(["shop"], "anna")
    await store.commit(lease, [entry(Event.INTENT, scope="shop")])
    return lease


@pytest.fixture
def place(path: Path) -> Path:
    return path.with_name("state.db.spool")


async def taken_in(store: Spooling, another: OpenStore, scope: str = "shop") -> State:
    """The state after the holder died and another took the lease."""
    await store.close()
    other = another()
    lease = await other.lease([scope], "ben")
    state = await other.load()
    await other.release(lease)
    await verify(other)
    return state


async def test_the_journal_shows_what_is_spooled_once(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    outcome = entry(Event.DONE, id="vol_1")
    await store.spool(lease, [outcome], [record()])
    sent = ("shop", entry(Event.INTENT, scope="shop"))
    for since in (None, NOON):
        assert list(await another().journal(since=since)) == [sent, ("shop", outcome)]
    await taken_in(store, another)
    assert list(await another().journal()) == [sent, ("shop", outcome)]


async def test_a_kept_outcome_is_shown_at_once_and_taken_in_by_the_next_lease(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    told = await store.spool(lease, [entry(Event.DONE, id="vol_data")], [record()])
    assert told == str(place)
    shown = await another().load()
    assert shown.open_intents == ()
    assert shown.records[DATA].id == "vol_data"
    assert shown.spooled == {"shop"}

    state = await taken_in(store, another)
    assert state == dataclasses.replace(shown, spooled=frozenset())
    assert place.read_bytes() == bytes(spool_file.RESERVE_BYTES)


async def test_many_outcomes_of_one_run_fit_although_they_need_more_than_the_reserve(
    store: Spooling, another: OpenStore, place: Path
) -> None:
    lease = await store.lease(["shop"], "anna")
    addresses = [Address("Volume", f"data{number}", "shop") for number in range(20)]
    for number in range(20):
        await store.commit(lease, [entry(Event.INTENT, f"s{number}")])
    for number, address in enumerate(addresses):
        done = entry(Event.DONE, f"s{number}", text="x" * 5_000)
        await store.spool(lease, [done], [record(address)])
    assert place.stat().st_size > spool_file.RESERVE_BYTES
    state = await taken_in(store, another)
    assert set(state.records) == set(addresses)
    assert state.open_intents == ()
    assert place.stat().st_size == spool_file.RESERVE_BYTES


async def test_a_kept_removal_and_a_kept_failure_are_taken_in(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.commit(lease, [entry(Event.INTENT, "s2")], [record()])
    await store.spool(lease, [entry(Event.DONE)], remove=[DATA])
    await store.spool(lease, [entry(Event.FAILED, "s2")])
    state = await taken_in(store, another)
    assert (state.records, state.open_intents, state.unclaimed) == ({}, (), ())


async def test_an_unknown_outcome_leaves_its_intent_open(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.spool(lease, [entry(Event.UNKNOWN)], [record()])
    state = await taken_in(store, another)
    assert DATA in state.records
    assert len(state.open_intents) == 1


async def test_reading_changes_no_file(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    await store.spool(lease, [entry(Event.DONE)], [record()])
    before = place.read_bytes()
    for _ in range(2):
        assert (await another().load()).spooled == {"shop"}
    assert place.read_bytes() == before


async def test_a_lease_takes_in_its_own_scopes_only(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    wiki = await store.lease(["wiki"], "anna")
    await store.commit(wiki, [entry(Event.INTENT, "s2", scope="wiki")])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    await store.spool(wiki, [entry(Event.DONE, "s2")], [record(LOGS, scope="wiki")])
    assert (await taken_in(store, another, "wiki")).spooled == {"shop"}
    assert (await taken_in(store, another)).spooled == set()
    state = await another().load()
    assert set(state.records) == {DATA, LOGS}
    assert place.read_bytes() == bytes(spool_file.RESERVE_BYTES)


async def test_the_serials_that_are_shown_are_those_that_the_next_lease_stores(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    """A plan is made for the records that are shown, and must fit what is stored when it runs."""
    wiki = await store.lease(["wiki"], "anna")
    (first,) = await store.commit(lease, [], [record(POSTS)])
    await store.commit(wiki, [entry(Event.INTENT, "s2", scope="wiki")])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    await store.spool(wiki, [entry(Event.DONE, "s2")], [record(LOGS, scope="wiki")])
    shown = (await another().load()).records
    assert {str(each.address): each.serial for each in shown.values()} == {
        str(POSTS): first.serial,
        str(DATA): first.serial + 1,
        str(LOGS): 1,
    }
    await taken_in(store, another, "wiki")
    assert (await taken_in(store, another)).records == shown


async def test_the_scope_of_a_removal_is_its_records(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    wiki = await store.lease(["wiki"], "anna")
    await store.commit(wiki, [entry(Event.INTENT, "s2")], [record(LOGS, scope="wiki")])
    await store.spool(wiki, [entry(Event.DONE, "s2")], remove=[LOGS])
    assert (await another().load()).spooled == {"wiki"}


async def test_an_outcome_settled_meanwhile_is_dropped_when_its_object_is_tracked(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.spool(lease, [entry(Event.DONE, id="vol_data")], [record()])
    await store.commit(lease, [entry(Event.SETTLED)], [record()])
    before = await another().load()
    assert before.unclaimed == ()
    assert before.spooled == set()
    after = await taken_in(store, another)
    assert (after.records, after.unclaimed) == (before.records, ())


async def test_an_object_that_no_record_tracks_is_never_forgotten_silently(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.spool(lease, [entry(Event.DONE, id="vol_data")], [record()])
    await store.commit(lease, [entry(Event.SETTLED, landed=False)])
    (shown,) = (await another().load()).unclaimed
    (stored,) = (await taken_in(store, another)).unclaimed
    for told in (shown, stored):
        assert (told.address, told.data["unclaimed"]) == (DATA, "vol_data")
    await another().lease(["shop"], "ben")
    assert len((await another().load()).unclaimed) == 1


async def test_an_unclaimed_object_ends_with_a_record_or_a_persons_word(
    store: Spooling, lease: Lease
) -> None:
    for id in ("vol_data", "vol_9"):
        await store.commit(lease, [replace(entry(Event.DECIDED, "", unclaimed=id), attempt=1)])
    assert [told.data["unclaimed"] for told in (await store.load()).unclaimed] == ["vol_data", "vol_9"]
    await store.commit(lease, [], [record()])
    assert [told.data["unclaimed"] for told in (await store.load()).unclaimed] == ["vol_9"]
    await store.commit(lease, [entry(Event.DECIDED, "", claimed="vol_9")])
    assert (await store.load()).unclaimed == ()
    await verify(store)


async def test_an_outcome_whose_record_moved_is_not_applied(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    (first,) = await store.commit(lease, [], [record()])
    await store.spool(lease, [entry(Event.DONE)], [replace(first, applied={"size_gb": 20})])
    (second,) = await store.commit(lease, [], [replace(first, applied={"size_gb": 30})])
    state = await taken_in(store, another)
    assert state.records == {DATA: second}
    assert len(state.open_intents) == 1


async def test_an_outcome_whose_object_another_address_has_is_not_applied(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    """Its intent stays open, and evidence or a person says what its call made."""
    wiki = await store.lease(["wiki"], "anna")
    await store.spool(lease, [entry(Event.DONE, id="vol_data")], [record()])
    twin = replace(record(Address("Volume", "data", "wiki"), scope="wiki"), id="vol_data")
    await store.commit(wiki, [], [twin])
    for state in (await another().load(), await taken_in(store, another)):
        assert set(state.records) == {twin.address}
        assert [opened.step for opened in state.open_intents] == ["s1"]


async def test_a_record_that_is_removed_and_put_again_replaces_any(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.commit(lease, [], [record()])
    await store.spool(lease, [entry(Event.DONE)], [record(size_gb=20)], [DATA])
    assert (await taken_in(store, another)).records[DATA].applied == {"size_gb": 20}


async def test_a_holder_that_lost_its_lease_can_still_keep_what_it_knows(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.release(lease)
    with pytest.raises(StoreError, match="no longer ours"):
        await store.commit(lease, [entry(Event.DONE)])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    assert DATA in (await taken_in(store, another)).records


@pytest.mark.parametrize("length", [1, 10, 75, 200, -3, -1])
async def test_a_torn_line_is_told_and_never_half_applied(
    store: Spooling, another: OpenStore, lease: Lease, place: Path, length: int
) -> None:
    await store.spool(lease, [entry(Event.UNKNOWN)], [record(LOGS)])
    sound = place.read_bytes().rstrip(b"\0")
    await store.spool(lease, [entry(Event.DONE)], [record()])
    second = place.read_bytes().rstrip(b"\0")[len(sound) :]
    place.write_bytes((sound + second[:length]).ljust(spool_file.RESERVE_BYTES, b"\0"))
    complete = length == -1  # all but the end of the line
    shown = await another().load()
    assert set(shown.records) == ({LOGS, DATA} if complete else {LOGS})
    await store.spool(lease, [entry(Event.FAILED, "s9")])
    state = await taken_in(store, another)
    assert state.records == shown.records
    assert len(state.open_intents) == (0 if complete else 1)
    assert place.read_bytes() == bytes(spool_file.RESERVE_BYTES)


async def test_a_torn_line_stands_in_the_journal(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    with place.open("r+b") as file:
        file.write(b'\0\0{"dig')
    await taken_in(store, another)
    *_, (_, newest) = await another().journal()
    assert "half-written" in newest.data["dropped"]
    assert place.read_bytes() == bytes(spool_file.RESERVE_BYTES)


@pytest.mark.slow
async def test_a_flipped_bit_of_a_kept_outcome_never_makes_another_one_of_it(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    for number in (1, 2):
        await store.spool(
            lease, [entry(Event.UNKNOWN, user="a @ b")], [record(Address("Volume", f"v{number}"))]
        )
    known = await another().load()
    sound = place.read_bytes()
    reader, passed_over = another(), 0
    for position in range(len(sound.rstrip(b"\0"))):
        bit = 1 << position % 8
        place.write_bytes(sound[:position] + bytes([sound[position] ^ bit]) + sound[position + 1 :])
        state = await reader.load()
        passed_over += state != known
        assert all(
            replace(found, serial=0) == replace(known.records[address], serial=0)
            for address, found in state.records.items()
        ), position
        assert all(intent in state.open_intents for intent in known.open_intents), position
    assert passed_over > 1000


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Directories in which no more bytes fit; only what overwrites others does."""
    names: set[str] = set()
    write = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        file = Path(f"/proc/self/fd/{descriptor}").readlink()
        room = os.fstat(descriptor).st_size - offset
        if file.parent.name in names and len(data) > room:
            if room > 1:
                return write(descriptor, data[: room + 100], offset)  # the last block had some left
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return names


async def test_a_full_disk_leaves_the_room_that_was_reserved(
    store: Spooling, another: OpenStore, lease: Lease, full: set[str], place: Path
) -> None:
    full.add(place.parent.name)
    assert await store.spool(lease, [entry(Event.DONE)], [record()]) == str(place)
    assert DATA in (await another().load()).records


async def test_what_does_not_fit_beside_the_state_goes_to_temporary_files(
    store: Spooling, another: OpenStore, lease: Lease, full: set[str], place: Path, elsewhere: Path
) -> None:
    await store.commit(lease, [entry(Event.INTENT, "s2")])
    full.add(place.parent.name)
    first = await store.spool(lease, [entry(Event.DONE, "s2")], [record(LOGS)])
    told = Path(
        await store.spool(lease, [entry(Event.DONE, text="x" * spool_file.RESERVE_BYTES)], [record()])
    )
    assert first == str(place)
    assert told.parent == elsewhere
    assert place.stat().st_size == spool_file.RESERVE_BYTES
    assert stat.S_IMODE(told.stat().st_mode) == 0o600
    shown = await another().load()
    assert set(shown.records) == {DATA, LOGS}
    full.clear()
    assert set((await taken_in(store, another)).records) == {DATA, LOGS}
    assert not told.exists()


async def test_the_removed_directory_of_a_state_sends_outcomes_to_temporary_files(
    store: Spooling, lease: Lease, path: Path, another: OpenStore, elsewhere: Path
) -> None:
    aside = path.parent.with_name("aside")
    path.parent.rename(aside)
    told = Path(await store.spool(lease, [entry(Event.DONE)], [record()]))
    assert told.parent == elsewhere
    aside.rename(path.parent)
    assert DATA in (await another().load()).records
    assert DATA in (await taken_in(store, another)).records


async def test_when_nothing_takes_an_outcome_the_first_reason_is_told(
    store: Spooling, lease: Lease, full: set[str], place: Path, elsewhere: Path
) -> None:
    full |= {place.parent.name, elsewhere.name}
    with pytest.raises(StoreError, match="no space left"):
        await store.spool(lease, [entry(Event.DONE, text="x" * spool_file.RESERVE_BYTES)])
    assert place.read_bytes() == bytes(spool_file.RESERVE_BYTES)


async def test_no_lease_without_room_for_outcomes(
    store: Spooling, another: OpenStore, full: set[str], place: Path
) -> None:
    await store.release(await store.lease(["shop"], "anna"))
    place.unlink()
    full.add(place.parent.name)
    with pytest.raises(StoreError, match="no space left"):
        await store.lease(["shop"], "anna")
    full.clear()
    await another().lease(["shop"], "ben")


@pytest.mark.parametrize("trap", ["readable by others", "a link", "a directory"])
async def test_a_file_that_somebody_else_may_have_put_there_does_not_count(
    store: Spooling, another: OpenStore, lease: Lease, path: Path, elsewhere: Path, trap: str
) -> None:
    lineage = (await store.load()).lineage
    aside = path.parent.with_name("aside")
    path.parent.rename(aside)
    told = Path(await store.spool(lease, [entry(Event.DONE)], [record()]))
    aside.rename(path.parent)
    assert lineage in told.name
    if trap == "readable by others":
        told.chmod(0o644)
    else:
        moved = told.rename(elsewhere / "moved")
        told.symlink_to(moved) if trap == "a link" else told.mkdir()
    assert (await another().load()).records == {}
    aside = path.parent.rename(path.parent.with_name("aside"))
    second = Path(await store.spool(lease, [entry(Event.DONE)], [record()]))
    assert second != told


async def test_a_place_that_another_process_is_writing_is_left_to_it(
    store: Spooling, another: OpenStore, lease: Lease, place: Path, elsewhere: Path
) -> None:
    first = await store.spool(lease, [entry(Event.DONE)], [record()])
    with place.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = await store.spool(lease, [entry(Event.FAILED, "s9")])
        assert (first, Path(second).parent) == (str(place), elsewhere)
    assert DATA in (await taken_in(store, another)).records


async def test_lines_of_another_state_are_left_alone(
    store: Spooling, another: OpenStore, lease: Lease, place: Path
) -> None:
    sound = spool_file.encode(spool_file.Kept("another lineage", {"shop": 1}, [], [], []))
    place.write_bytes(sound.ljust(spool_file.RESERVE_BYTES, b"\0"))
    await store.spool(lease, [entry(Event.DONE)], [record()])
    assert DATA in (await taken_in(store, another)).records
    assert place.read_bytes().startswith(sound + b" ")


async def test_a_place_that_is_replaced_while_it_is_opened_is_not_written_to(
    store: Spooling, lease: Lease, place: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def replacing(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        place.rename(place.with_name("moved"))
        place.write_bytes(b"")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", replacing)
    assert Path(await store.spool(lease, [entry(Event.DONE)])).parent == elsewhere
    assert place.read_bytes() == b""


async def test_a_lease_of_no_scope_takes_nothing_in(
    store: Spooling, another: OpenStore, lease: Lease
) -> None:
    await store.spool(lease, [entry(Event.DONE)], [record()])
    await store.close()
    other = another()
    await other.release(await other.lease([], "ben"))
    assert (await other.load()).spooled == {"shop"}


async def test_a_place_that_cannot_be_read_is_named(store: Spooling, lease: Lease, place: Path) -> None:
    place.unlink()
    place.mkdir()
    for attempt in (store.load, lambda: store.lease(["wiki"], "anna")):
        with pytest.raises(StoreError, match=f"{place} cannot be read or written"):
            await attempt()
