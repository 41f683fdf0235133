"""`reconcile state migrate`: the state goes elsewhere, and there is never a second one."""

from pathlib import Path

import anyio

from reconciler.core.clock import SystemClock
from reconciler.project.settings import find_settings
from reconciler.project.store import Opening, open_state
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import WHOLE_STATE, State
from tests.cli.harness import Project
from tests.state.postgres.conftest import postgres  # noqa: F401 - a fixture

OLD, NEW = "sqlite:.reconcile/state.db", "sqlite:.reconcile/new.db"


def loaded(root: Path, url: str) -> State:
    async def work() -> State:
        async with open_state(find_settings(root, {}), Opening(url, read_only=True)) as store:
            return await store.load()

    return anyio.run(work)


def test_the_state_moves_and_the_old_place_says_where(applied: Project) -> None:
    before = loaded(applied.root, OLD)
    moved = applied.run("state", "migrate", NEW)
    first, *_ = moved.out.splitlines()
    assert first.startswith(f"{OLD}: the state is now {NEW} (1 record, ")
    assert f"  state: {{url: {NEW}, lineage: {before.lineage}}}" in moved.out.splitlines()
    assert loaded(applied.root, NEW) == before
    for verb in (["plan"], ["apply", "--auto-approve"], ["drift"], ["state", "list"], ["state", "init"]):
        refused = applied.run(*verb, code=1)
        assert "error[state-moved]" in refused.err
        assert f"has moved to {NEW}" in refused.err
    (problem,) = applied.json("plan", code=1).json["diagnostics"]
    assert problem["code"] == "state-moved"
    assert "No changes" in applied.run("plan", "--state", NEW).out
    again = applied.run("state", "migrate", NEW)
    assert "an earlier move, completed" in again.out
    assert "has moved to" in applied.run("state", "migrate", "sqlite:third.db", code=1).err
    assert not (applied.root / "third.db").exists()


def test_it_moves_back_again(applied: Project) -> None:
    applied.run("state", "migrate", NEW)
    applied.run("state", "migrate", OLD, "--state", NEW)
    assert "No changes" in applied.run("plan").out
    assert "error[state-moved]" in applied.run("plan", "--state", NEW, code=1).err


def test_nothing_moves_to_where_a_state_is_or_from_where_none_is(applied: Project) -> None:
    applied.run("state", "init", "--state", "sqlite:other.db")
    assert "there is a state" in applied.run("state", "migrate", "sqlite:other.db", code=1).err
    assert "there is a state" in applied.run("state", "migrate", OLD, code=1).err
    assert "there is no state" in applied.run("state", "migrate", NEW, "--state", "sqlite:no.db", code=1).err
    assert "No changes" in applied.run("plan").out


def test_a_run_that_is_under_way_is_waited_for_and_not_cut_off(applied: Project) -> None:
    async def hold() -> str:
        store = SqliteStore(applied.root / ".reconcile" / "state.db", SystemClock())
        lease = await store.lease([WHOLE_STATE], "an apply")
        refused = await anyio.to_thread.run_sync(lambda: applied.run("state", "migrate", NEW, code=5))
        await store.release(lease)
        await store.close()
        return refused.err

    assert "has been locked by an apply" in anyio.run(hold)
    assert not (applied.root / ".reconcile" / "new.db").exists()
