"""What the state could not take is told last, and written where the runner is told to."""

import hashlib
import json
from pathlib import Path

import pytest

from reconciler.cli.apply import print_spooled
from reconciler.core.errors import StoreError
from reconciler.state import spool_file
from reconciler.state.store import Event
from tests.state.doubles import made, spooling
from tests.state.worlds import SimulatedClock, entry, record


async def left_over(folder: Path) -> list[bytes]:
    """What an apply finds beside its state, when one outcome could not be stored."""
    store = spooling(made(SimulatedClock()), SimulatedClock(), folder)
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    await store.spool(lease, [entry(Event.DONE)], [record()])
    return await store.spooled()


async def test_it_is_written_and_printed_and_can_be_taken_in_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, file = await left_over(tmp_path), tmp_path / "kept"
    print_spooled(left, file, shared=True)
    (line,) = file.read_bytes().splitlines()
    assert file.stat().st_mode & 0o777 == 0o600
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"1 outcome could not be stored; {file} holds them: keep these lines in a file, and run "
        f"`reconcile state ingest {file}`",
        line.decode(),
    ]
    known = made(SimulatedClock())
    store = spooling(known, SimulatedClock(), tmp_path / "another" / "runner")
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)])
    await store.release(lease)
    assert await store.ingest(file.read_bytes(), "me") == 1
    state = await store.load()
    assert not state.open_intents
    assert not state.spooled
    assert [each.id for each in state.records.values()] == ["vol_data"]


@pytest.mark.parametrize(
    ("named", "shared", "lines"), [(False, False, 0), (False, True, 2), (True, False, 2)]
)
async def test_a_state_in_a_file_keeps_it_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: bool, shared: bool, lines: int
) -> None:
    left = await left_over(tmp_path)
    print_spooled(left, tmp_path / "kept" if named else None, shared=shared)
    assert len(capsys.readouterr().err.splitlines()) == lines
    assert (tmp_path / "kept").exists() is named


async def test_nothing_is_written_where_everything_was_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_spooled([], tmp_path / "kept", shared=True)
    assert not (tmp_path / "kept").exists()
    assert capsys.readouterr().err == ""


async def test_a_file_that_cannot_be_written_costs_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = await left_over(tmp_path)
    print_spooled(left, tmp_path, shared=False)
    first, _, line = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {tmp_path} cannot be written")
    assert spool_file.decode(line.encode()) == spool_file.decode(b"".join(left))


def test_lines_that_were_changed_are_not_taken() -> None:
    with pytest.raises(ValueError, match="line 2 is not"):
        spool_file.decode(b"\nnothing of ours\n")


async def test_where_the_state_was_never_reached_nothing_is_left(tmp_path: Path) -> None:
    assert await spooling(made(SimulatedClock()), SimulatedClock(), tmp_path).spooled() == []


async def test_outcomes_of_another_state_are_refused(tmp_path: Path) -> None:
    left = await left_over(tmp_path)
    store = spooling(made(SimulatedClock(), lineage="another"), SimulatedClock(), tmp_path / "another")
    with pytest.raises(StoreError, match="of another state"):
        await store.ingest(b"".join(left), "me")


def line_of(**fields: str) -> bytes:
    """A line whose digest fits, with other fields than the ones that are written."""
    body = json.dumps(fields).encode()
    return b'{"digest":"%s","commit":%s}\n' % (hashlib.sha256(body).hexdigest().encode(), body)


async def test_a_line_without_a_commit_says_what_it_lacks(tmp_path: Path) -> None:
    store = spooling(made(SimulatedClock()), SimulatedClock(), tmp_path)
    with pytest.raises(ValueError, match="there is no 'put' in it"):
        await store.ingest(line_of(lineage="any"), "me")


async def test_outcomes_that_no_key_of_this_state_opens_are_refused(tmp_path: Path) -> None:
    known = made(SimulatedClock())
    store = spooling(known, SimulatedClock(), tmp_path)
    lineage = (await store.load()).lineage
    with pytest.raises(StoreError, match="a key that this state no longer has"):
        await store.ingest(line_of(lineage=lineage, sealed="text of another key"), "me")
