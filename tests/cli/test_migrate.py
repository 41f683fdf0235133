"""`reconcile state migrate`: the state goes elsewhere, and there is never a second one."""

import os
import shutil
import signal
from pathlib import Path

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.errors import ReconcilerError
from reconciler.project.open import begin_work
from reconciler.project.settings import find_settings
from reconciler.project.store import Opening, open_state
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import WHOLE_STATE, State
from tests.cli.harness import PATIENCE_S, Project, Ran, volume
from tests.cli.warm import run_warm
from tests.providers.postgres import Postgres
from tests.state.postgres.conftest import new_database, postgres  # noqa: F401 - a fixture

OLD, NEW = "sqlite:.reconcile/state.db", "sqlite:.reconcile/new.db"


@pytest.fixture
def applied(project: Project, app: str) -> Project:
    project.write(volume(app))
    project.apply()
    return project


def is_writable(root: Path, url: str) -> bool:
    """Whether a run with this state gets a lease and commits."""

    async def work() -> None:
        async with open_state(find_settings(root, {}), Opening(url)) as store:
            await begin_work(find_settings(root, {}), store, Opening(url))
            lease = await store.lease([WHOLE_STATE], "the test")
            await store.commit(lease, [])
            await store.release(lease)

    try:
        anyio.run(work)
    except ReconcilerError:
        return False
    return True


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


def migrate_and_die(project: Project, root: Path, step: int, url: str = NEW) -> Ran:
    """`step`: see `migrating`; 0: it does not die."""
    variables = {**os.environ, **project.env}
    arguments, module = [str(step), url], "tests.cli.migrating"
    return Ran(*run_warm(arguments, root=root, env=variables, patience_s=PATIENCE_S, module=module))


def test_killed_at_any_step_exactly_one_state_can_be_written_and_running_it_again_ends_it(
    applied: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before, step = loaded(applied.root, OLD), 0
    folders = tmp_path_factory.mktemp("killed")  # not below the project, which is copied
    sides = []
    while True:
        step += 1
        root = folders / f"step-{step}"
        shutil.copytree(applied.root, root, symlinks=True)
        killed = migrate_and_die(applied, root, step)
        if killed.code != -signal.SIGKILL:
            break
        look = folders / f"look-{step}"
        shutil.copytree(root, look, symlinks=True)
        writable = [url for url in (OLD, NEW) if is_writable(look, url)]
        assert len(writable) == 1, (step, writable)
        sides += writable
        # In the other order, and again at the place where it was killed:
        assert [is_writable(root, url) for url in (NEW, OLD)] == [url in writable for url in (NEW, OLD)]
        ended = migrate_and_die(applied, root, 0)
        assert ended.code == 0, ended.err
        assert (is_writable(root, OLD), is_writable(root, NEW)) == (False, True)
        assert loaded(root, NEW).records == before.records
    assert killed.code == 0, killed.err
    assert step > 12
    assert sides == sorted(sides, key=[OLD, NEW].index)  # there is one moment at which the state moves
    assert {OLD, NEW} == set(sides)


def test_killed_at_any_step_of_a_move_to_postgresql_one_side_takes_changes(
    applied: Project,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,  # noqa: F811 - a fixture
) -> None:
    before, step = loaded(applied.root, OLD), 0
    folders, sides = tmp_path_factory.mktemp("killed"), list[str]()
    while True:
        step += 1
        root, url = folders / f"step-{step}", new_database(postgres).url
        shutil.copytree(applied.root, root, symlinks=True)
        killed = migrate_and_die(applied, root, step, url)
        if killed.code != -signal.SIGKILL:
            break
        writable = [is_writable(root, each) for each in (OLD, url)]
        assert writable in ([True, False], [False, True]), step
        sides.append("old" if writable[0] else "new")
        ended = migrate_and_die(applied, root, 0, url)
        assert ended.code == 0, ended.err
        assert [is_writable(root, each) for each in (OLD, url)] == [False, True]
        assert loaded(root, url).records == before.records
    assert killed.code == 0, killed.err
    assert sides == sorted(sides, reverse=True)
    assert {"old", "new"} == set(sides)
