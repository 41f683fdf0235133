"""A state that runners share: on PostgreSQL and in S3, from folders that have nothing else in common."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from reconciler.core.state_url import shown_url
from reconciler.project.settings import find_settings
from reconciler.project.store import open_state
from reconciler.state import spool_file
from reconciler.state.spool_file import Kept
from reconciler.state.store import Event
from tests.cli.harness import Project, Sandbox, lines_with, volume
from tests.cli.test_state import entry
from tests.providers.postgres import Postgres
from tests.state.objects.conftest import S3, make_s3, moto_server  # noqa: F401 - fixtures
from tests.state.postgres.conftest import database, postgres  # noqa: F401 - fixtures

LOCAL = "sqlite:.reconcile/state.db"


@dataclass(frozen=True)
class Shared:
    """Where a state is to be, and what a shell must have for it."""

    url: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        return shown_url(self.url)


@pytest.fixture(params=["postgres", "s3"])
def shared(request: pytest.FixtureRequest) -> Shared:
    if request.param == "postgres":
        found: Postgres = request.getfixturevalue("database")
        return Shared(found.url)
    make: Callable[[], S3] = request.getfixturevalue("make_s3")
    s3 = make()
    return Shared(s3.url, s3.variables)


@pytest.fixture
def team(project: Project, app: str, shared: Shared) -> Project:
    """A project whose settings name the shared state, which was made."""
    shutil.rmtree(project.root / ".reconcile", ignore_errors=True)
    project.env.update(shared.env)
    project.write(f"state: '{shared.url}'\n", "reconcile.yaml")
    project.write(volume(app))
    assert "created" in project.run("state", "init").out
    return project


def runner(project: Project, folder: Path) -> Project:
    """Another machine: what is in git, and no more."""
    ignored = shutil.ignore_patterns(".reconcile", "runner*")
    shutil.copytree(project.root, folder, ignore=ignored)
    return Project(folder, dict(project.env))


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runners")


def test_what_one_runner_made_the_next_one_knows(team: Project, elsewhere: Path) -> None:
    team.apply()
    other = runner(team, elsewhere / "runner-2")
    assert "No changes" in other.run("plan").out
    assert "No drift" in other.run("drift").out
    assert len(other.json("state", "list").json["records"]) == 1
    assert "store: passed the concurrency test (4 writers" in other.run("doctor", "--probe-state").out
    examined = other.run("doctor", code=None).out
    assert "0 problems" in examined
    assert "backups" in examined
    assert "cannot be seen from here: look at the database's own backups" in examined
    assert not list((other.root / ".reconcile").glob("*.db*"))


def test_a_second_project_at_the_same_place_sends_nothing(
    team: Project, sandbox: Sandbox, app: str, elsewhere: Path, shared: Shared
) -> None:
    team.apply()
    sandbox.app(f"{app}-blog")
    second = runner(team, elsewhere / "second")
    second.write(volume(f"{app}-blog"))
    for verb in (["plan"], ["apply", "--auto-approve"]):
        told = second.run(*verb, code=1).err
        assert "error[perhaps-other-state]" in told
        assert f"the state at {shared.shown} knows" in told
    assert not sandbox.call("GET", f"/v1/apps/{app}-blog/volumes")
    lineage = team.json("plan").json["context"]["lineage"]
    second.write(f"state: {{url: '{shared.url}', lineage: {lineage}}}\n", "reconcile.yaml")
    assert second.apply().json["results"][0]["outcome"] == "done"


def test_a_backup_goes_back_to_a_place_without_a_state_and_says_what_it_cannot_know(
    team: Project, elsewhere: Path, tmp_path: Path
) -> None:
    team.apply()
    file = elsewhere / "state.backup"
    team.run("state", "backup", str(file))
    assert "name a FILE" in team.run("state", "backup", code=1).err
    assert "there is a state" in team.run("state", "restore", str(file), "--auto-approve", code=1).err
    local = Project(elsewhere / "local", dict(team.env))
    shutil.copytree(team.root / "manifests", local.root / "manifests")
    local.run("state", "restore", str(file), "--auto-approve", "--state", LOCAL)
    assert "No changes" in local.run("plan", "--state", LOCAL, code=None).out
    url = team.root.joinpath("reconcile.yaml").read_text().removeprefix("state: '").rstrip("'\n")
    if url.startswith("s3:"):
        other = url + "-2"
        restored = team.run("state", "restore", str(file), "--auto-approve", "--state", other)
        assert "is not in the backup" in restored.out
        told = team.run("plan", "--state", other, code=None)
        assert "state-incomplete" in told.err + told.out


def test_what_could_not_be_stored_is_kept_for_the_next_runner(
    team: Project, elsewhere: Path, app: str
) -> None:
    """As a runner does whose store went away between a call and its outcome."""
    lost = elsewhere / "lost.spool"

    async def interrupt() -> None:
        async with open_state(find_settings(team.root, team.env)) as store:
            lease = await store.lease([app], "a runner")
            intent = entry(Event.INTENT, f"Volume/{app}/data", "s1", scope=app)
            await store.commit(lease, [intent])
            lineage = (await store.load()).lineage
            done = entry(Event.DONE, f"Volume/{app}/data", "s1")
            kept = Kept(lineage, lease.epochs, [done], [], [])
            lost.write_bytes(spool_file.encode(kept))
            await store.release(lease)

    anyio.run(interrupt)
    other = runner(team, elsewhere / "runner-2")
    (found,) = lines_with(other.run("doctor", code=1).out, "open calls")
    assert f"a call for Volume/{app}/data" in found
    assert other.json("state", "ingest", str(lost)).json["ingested"] == 1
    (found,) = lines_with(other.run("doctor", code=None).out, "open calls")
    assert found.startswith("ok")
    lost.write_bytes(lost.read_bytes().replace(b"step.done", b"step.gone"))
    assert "line 1 is not what was written" in other.run("state", "ingest", str(lost), code=1).err
