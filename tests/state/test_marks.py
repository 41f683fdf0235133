"""Marks of what was seen of a state, where an older copy of it does not reach."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from reconciler.core.errors import StoreError
from reconciler.project.copies import bring_back, require_backup
from reconciler.state.encryption.bucket import Encryption, SealedBucket
from reconciler.state.log.bucket import Bucket
from reconciler.state.log.store import LogStore
from reconciler.state.marks import Marks, StateOlder
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import LOST_ROWS, WHOLE_STATE, Event, Store
from tests.state.encryption.doubles import ANA
from tests.state.objects.doubles import memory_bucket, objects_of
from tests.state.worlds import SimulatedClock, entry, record


class Kept:
    """A state of one kind, which can be put back to what it was; `open` is what a verb opens."""

    def __init__(self, kind: str, folder: Path, clock: SimulatedClock) -> None:
        self.kind, self.folder, self.clock = kind, folder, clock
        self.marks = folder / "home/.local/state/reconciler"
        self.told: list[str] = []
        self.encryption = ANA.alone if kind == "encrypted" else Encryption()
        self.bucket: Bucket = memory_bucket()
        (folder / "project").mkdir()

    def copy(self) -> object:
        if self.kind == "file":
            return shutil.copytree(self.folder / "project", self.folder / f"kept{self.clock.elapsed_s}")
        return memory_bucket(objects_of(self.bucket))

    def put_back(self, kept: object) -> None:
        if isinstance(kept, Path):
            shutil.rmtree(self.folder / "project")
            shutil.copytree(kept, self.folder / "project")
        else:
            self.bucket = kept  # type: ignore[assignment]

    def backend(self, place: str) -> Store:
        if self.kind == "file":
            return SqliteStore(self.folder / place / "state.db", self.clock)
        sealed = SealedBucket(self.bucket, self.encryption)
        return LogStore(sealed if self.kind == "encrypted" else self.bucket, self.clock)

    def open(self, place: str = "project", *, read_only: bool = False) -> Spooling:
        marks = Marks(self.marks, place, self.told.append, read_only=read_only)
        return Spooling(self.backend(place), self.folder / "spool", self.clock, marks=marks)

    async def commit(self, scope: str, place: str = "project") -> None:
        """A call without a record: its outcome is not known."""
        store = self.open(place)
        await store.create()
        lease = await store.lease([scope], "me")
        self.clock.elapsed_s += 1
        intent = entry(Event.INTENT, f"s{self.clock.elapsed_s}", data={"scope": scope})
        await store.commit(lease.of(scope), [intent])
        await store.release(lease)
        await store.close()


@pytest.fixture(params=["file", "encrypted", "objects"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, clock: SimulatedClock) -> Kept:
    return Kept(request.param, tmp_path, clock)


@pytest.fixture
def file(tmp_path: Path, clock: SimulatedClock) -> Kept:
    return Kept("file", tmp_path, clock)


async def test_a_state_that_was_put_back_is_refused_until_a_person_goes_on_with_it(kept: Kept) -> None:
    await kept.commit("shop")
    before = kept.copy()
    await kept.commit("shop")
    kept.put_back(before)
    for ask in (Spooling.load, Spooling.journal):
        with pytest.raises(StateOlder) as refused:
            await ask(kept.open())
        (problem,) = refused.value.diagnostics
        assert problem.code == "state-incomplete"
        assert "is older than what was seen of it: it lacks 1 committed change" in problem.message
        assert "reconcile state restore" in (problem.help or "")
    with pytest.raises(StateOlder):
        await kept.open().lease(["shop"], "me")
    with pytest.raises(StateOlder):
        await kept.open(read_only=True).load()

    assert "it lacks 1 committed change" in await require_backup(kept.open())  # what a person is asked about
    done = await bring_back(kept.open(), None, "", kept.clock, "me")
    assert "it lacks 1 committed change" in done.lost
    state = await kept.open().load()
    assert [each.data["unclaimed"] for each in state.unclaimed] == [LOST_ROWS]
    await kept.commit("shop")


@pytest.mark.parametrize("kept", ["objects"], indirect=True)
async def test_one_scope_that_was_put_back_or_is_gone_is_noticed(kept: Kept) -> None:
    await kept.commit("blog")
    await kept.commit("shop")
    before = {key: body for key, body in objects_of(kept.bucket).items() if key.endswith("/heads/shop")}
    await kept.commit("blog")
    await kept.commit("shop")
    kept.bucket = memory_bucket(objects_of(kept.bucket) | before)
    with pytest.raises(StateOlder):
        await kept.open().load()


async def test_another_history_of_the_same_length_is_noticed(kept: Kept) -> None:
    await kept.commit("shop")
    before = kept.copy()
    await kept.commit("shop")
    await kept.open().load()
    kept.put_back(before)
    mine, kept.marks = kept.marks, kept.folder / "another machine"
    await kept.commit("shop")
    kept.marks = mine
    with pytest.raises(StateOlder) as refused:
        await kept.open().load()
    assert "it lacks 1 committed change" in refused.value.because


@pytest.mark.parametrize(("ends", "missing"), [("killed", 1), ("released", 3)])
async def test_a_run_marks_its_first_change_at_once_and_all_of_them_at_its_end(
    kept: Kept, ends: str, missing: int
) -> None:
    await kept.commit("shop")
    before = kept.copy()
    run = kept.open()
    lease = await run.lease(["shop"], "me")
    for number in range(3):
        await run.commit(lease, [entry(Event.DECIDED, f"d{number}")])
    if ends == "released":
        await run.release(lease)
    await run.close()
    kept.put_back(before)
    with pytest.raises(StateOlder) as refused:
        await kept.open().load()
    assert f"it lacks {missing} committed change" in refused.value.because


async def test_what_another_machine_has_done_is_no_loss(kept: Kept) -> None:
    await kept.commit("shop")
    mine, kept.marks = kept.marks, kept.folder / "another machine"
    await kept.commit("blog")
    await kept.commit("shop")
    kept.marks = mine
    assert (await kept.open().load()).lengths == {"blog": 1, "shop": 2}


async def test_a_copy_is_refused_once_the_other_one_has_gone_on(file: Kept) -> None:
    await file.commit("shop")
    shutil.copytree(file.folder / "project", file.folder / "laptop")
    await file.commit("shop", "laptop")
    with pytest.raises(StateOlder) as refused:
        await file.open().load()
    assert "a copy of this state at laptop has newer changes" in refused.value.because
    assert (await file.open("laptop").load()).lengths == {"shop": 2}


async def test_another_state_at_the_same_place_is_told_until_a_person_accepts_it(file: Kept) -> None:
    await file.commit("shop")
    lineage = (await file.open().load()).lineage
    shutil.rmtree(file.folder / "project")
    await file.commit("shop", "laptop")
    shutil.copytree(file.folder / "laptop", file.folder / "project")
    await file.open().load()
    (told,) = file.told
    assert f"another state was at project before, with lineage {lineage}" in told
    await file.open().accept()
    file.told.clear()
    await file.open().load()
    assert file.told == []


async def test_a_rekey_on_another_machine_is_no_loss(tmp_path: Path, clock: SimulatedClock) -> None:
    from reconciler.core.context import Attribution
    from reconciler.execution.decisions import Actor
    from reconciler.project.copies import rekey

    kept = Kept("encrypted", tmp_path, clock)
    await kept.commit("shop")
    await kept.open().load()
    mine, kept.marks = kept.marks, tmp_path / "another machine"
    kept.encryption = ANA.changing
    await rekey(kept.open(), "s3://team/state", Actor(clock, "ana", Attribution("ana@host")))
    kept.marks, kept.encryption = mine, ANA.alone
    assert (await kept.open().load()).lengths == {"shop": 1, WHOLE_STATE: 1}


async def test_a_mark_is_private_and_names_no_place(file: Kept) -> None:
    await file.commit("shop")
    (mark,) = file.marks.iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.marks.stat().st_mode) == 0o700
    assert "project" not in mark.name


@pytest.mark.parametrize("content", [b"", b"\0" * 400, b"{}", b'{"ends": 1}', b"\xff", b"{}\n["])
async def test_a_mark_that_was_not_written_whole_is_ignored(file: Kept, content: bytes) -> None:
    await file.commit("shop")
    (mark,) = file.marks.iterdir()
    mark.write_bytes(content)
    assert (await file.open().load()).lineage


async def test_where_no_mark_can_be_written_everything_works(file: Kept) -> None:
    (file.folder / "no folder").write_text("")
    file.marks = file.folder / "no folder" / "reconciler"
    await file.commit("shop")
    await file.commit("shop")


async def test_no_link_is_followed_to_a_mark(file: Kept) -> None:
    await file.commit("shop")
    (mark,) = file.marks.iterdir()
    mark.unlink()
    mark.symlink_to(file.folder / "mine")
    await file.commit("shop")
    assert not (file.folder / "mine").exists()


async def test_no_state_is_made_where_a_mark_tells_of_an_older_one(file: Kept) -> None:
    await file.commit("shop")
    shutil.rmtree(file.folder / "project")
    (mark,) = file.marks.iterdir()
    with pytest.raises(StoreError, match="there was a state") as refused:
        await file.open().create()
    assert refused.value.help == (
        f"restore it with `reconcile state restore FILE`; to start without it, move away {mark}"
    )
    mark.unlink()
    assert await file.open().create()


@pytest.mark.parametrize("kept", ["encrypted", "objects"], indirect=True)
async def test_a_mark_tells_of_a_shared_state_that_is_gone_but_holds_no_new_one_back(kept: Kept) -> None:
    await kept.commit("shop")
    kept.bucket = memory_bucket()
    (mark,), marks = kept.marks.iterdir(), Marks(kept.marks, "project")
    store = Spooling(kept.backend("project"), kept.folder / "spool", kept.clock, marks=marks)
    assert (await store.load()).traces == (str(mark),)
    with pytest.raises(StoreError, match="keeps no backups beside itself"):
        await require_backup(store)
    assert await store.create()


@pytest.mark.parametrize("kept", ["encrypted"], indirect=True)
async def test_scopes_that_an_older_program_sealed_by_name_count_no_more(kept: Kept) -> None:
    """`state rekey` names them anew. The token is one that version 0.2.0 wrote."""
    await kept.commit("shop")
    (mark,) = kept.marks.iterdir()
    token = "enc-cV9sWWcrDWmYX6Dy4CnE4kHfFtesP6nFJ36ovbL8us3pYumzdUwIrfDmGTs1cNxg"
    with mark.open("a") as file:
        file.write(json.dumps({"place": "project", "ends": {token: (5, "1d86"), "shop": (1, "")}}) + "\n")
    assert (await kept.open().load()).lengths["shop"] == 1
    before = kept.copy()
    await kept.commit("shop")
    kept.put_back(before)
    with pytest.raises(StateOlder):
        await kept.open().load()


async def test_a_record_is_no_part_of_a_mark(file: Kept) -> None:
    """What a mark holds is for anybody who reads the user's folder."""
    store = file.open()
    await store.create()
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.DONE)], [record()])
    (mark,) = file.marks.iterdir()
    assert record().id not in mark.read_text()


async def test_what_was_seen_can_be_asked_for(file: Kept) -> None:
    await file.commit("shop")
    before = file.copy()
    await file.commit("shop")
    assert await file.open().lost() == ""
    file.put_back(before)
    assert "1 committed change" in await file.open().lost()
    shutil.rmtree(file.folder / "project")
    (mark,) = file.marks.iterdir()
    assert str(mark) in (await file.open().load()).traces


async def test_without_marks_nothing_was_seen_and_a_state_is_made_as_ever(file: Kept) -> None:
    store = Spooling(Store(file.backend("project")), file.folder / "spool", file.clock)
    assert await store.create()
    await store.accept()
    assert await store.lost() == ""
    assert not file.marks.exists()
