"""A second mark of what was seen, where an older copy of the state's folder does not reach."""

import shutil
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from reconciler.core.clock import Clock
from reconciler.core.errors import StoreError
from reconciler.state.sqlite import checks
from reconciler.state.sqlite.checks import Place
from reconciler.state.sqlite.store import SqliteStore
from reconciler.state.store import LOST_ROWS, Event
from tests.state.test_files import fill
from tests.state.worlds import DATA, entry, record

pytestmark = pytest.mark.anyio

Open = Callable[[], SqliteStore]


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "home/.local/state/reconciler"


@pytest.fixture
async def reopened(path: Path, clock: Clock, marks: Path) -> AsyncIterator[Open]:
    """Opens the state as this user does; all are closed at the end."""
    stores: list[SqliteStore] = []

    def open_one() -> SqliteStore:
        stores.append(SqliteStore(path, clock, marks=marks))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


async def rolled_back(reopened: Open, path: Path, kept: Path) -> int:
    """The state's folder as it was before the last change, with all that is in it; how many are lost."""
    store = reopened()
    await store.create()
    await fill(store)
    await store.close()
    shutil.copytree(path.parent, kept)
    other = reopened()
    lease = await other.lease(["shop"], "ben")
    (known,) = [each for each in (await other.load()).records.values() if each.address == DATA]
    sent = [entry(Event.INTENT, "s3"), entry(Event.DONE, "s3")]
    await other.commit(lease, sent, [record(serial=known.serial)])
    await other.release(lease)
    await other.close()
    shutil.rmtree(path.parent)
    shutil.copytree(kept, path.parent)
    return 3


async def test_a_folder_that_was_put_back_to_an_older_copy_is_noticed(
    reopened: Open, path: Path, marks: Path, tmp_path: Path, another: Open
) -> None:
    lost = await rolled_back(reopened, path, tmp_path / "kept")
    with pytest.raises(StoreError, match=f"the last {lost} committed changes are missing") as refused:
        await reopened().load()
    (mark,) = marks.iterdir()
    assert str(mark) in refused.value.message
    assert "reconcile state restore" in refused.value.help
    with pytest.raises(StoreError, match="committed changes are missing"):
        await reopened().verify()
    assert (await another().load()).records, "for somebody without that mark, it is a state"


async def test_a_restore_renews_the_mark_and_says_what_is_lost(
    reopened: Open, path: Path, tmp_path: Path
) -> None:
    await rolled_back(reopened, path, tmp_path / "kept")
    restored = await reopened().restore()
    assert "cannot be read" in restored.lost
    state = await reopened().load()
    assert [entry.data["unclaimed"] for entry in state.unclaimed] == [LOST_ROWS]
    lease = await (store := reopened()).lease(["shop"], "ben")
    await store.release(lease)
    await reopened().verify()


async def test_the_mark_is_private_and_of_one_state(reopened: Open, marks: Path, path: Path) -> None:
    store = reopened()
    await store.create()
    lineage = (await store.load()).lineage
    (mark,) = marks.iterdir()
    assert mark in Place(path, marks).seen_files(lineage)
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert stat.S_IMODE(marks.stat().st_mode) == 0o700
    assert str(path) not in mark.name
    assert Place(path.with_name("other.db"), marks).all_marks() == []


@pytest.mark.parametrize("content", [b"", b"\0" * 400, b"{}", b'{"check": 1}'])
async def test_a_mark_that_was_not_written_whole_is_ignored(
    reopened: Open, marks: Path, content: bytes
) -> None:
    store = reopened()
    await store.create()
    (mark,) = marks.iterdir()
    mark.write_bytes(content)
    assert (await reopened().load()).lineage


async def test_where_no_mark_can_be_written_everything_works(
    path: Path, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = SqliteStore(path, clock, marks=tmp_path / "file" / "reconciler")
    assert await store.create()
    await fill(store)
    await store.verify()
    await store.close()


async def test_no_link_is_followed_to_a_mark(reopened: Open, marks: Path, path: Path, tmp_path: Path) -> None:
    store = reopened()
    await store.create()
    (mark,) = marks.iterdir()
    mark.unlink()
    mark.symlink_to(tmp_path / "mine")
    await fill(store)
    assert not (tmp_path / "mine").exists()


async def test_no_state_is_made_where_the_mark_tells_of_an_older_one(
    reopened: Open, marks: Path, path: Path
) -> None:
    store = reopened()
    await store.create()
    await store.close()
    shutil.rmtree(path.parent)
    (mark,) = marks.iterdir()
    with pytest.raises(StoreError, match="there was a state") as refused:
        await reopened().create()
    assert refused.value.help == (
        f"restore it with `reconcile state restore FILE`; to start without it, move away {mark}"
    )
    mark.unlink()
    assert await reopened().create()


def test_the_newest_of_what_was_seen_counts() -> None:
    seen = [checks.Seen(Path(name), version, "", 0, 0) for name, version in (("a", 1), ("b", 3), ("c", 2))]
    assert checks.newest(seen) == seen[1]
    assert checks.newest([]) is None
