"""`reconcile state`: what a person does about the record, its holder and its file."""

import getpass
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from reconciler.core.clock import SystemClock
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.project import attribution
from reconciler.state.places.sqlite import backups, database
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.store import Event, JournalEntry
from tests.cli.harness import RECONCILE, Project, Sandbox, cluster, lines_with, secret, volume
from tests.cli.terminal import on_a_terminal
from tests.state.altering import execute
from tests.state.test_migrations import left_by


def state_file(project: Project) -> Path:
    return project.root / ".reconcile" / "state.db"


def commit(project: Project, *entries: JournalEntry, put: Sequence[StateRecord] = ()) -> None:
    async def work() -> None:
        store = SqliteStore(state_file(project), SystemClock())
        await store.commit(await store.lease(["shop"], "the test"), entries, put)
        await store.close()

    anyio.run(work)


def entry(event: Event, address: str, step: str = "", **data: str) -> JournalEntry:
    return JournalEntry("r1", event, SystemClock().now(), Address.parse(address), step, 1, data)


def damage(project: Project, statement: str) -> None:
    with closing(sqlite3.connect(state_file(project))) as connection:
        assert connection.execute(statement).rowcount != 0
        connection.commit()


@pytest.fixture
def holder(project: Project) -> "Iterator[subprocess.Popen[str]]":
    """A living process that holds the lease of `held`."""
    command = [sys.executable, "-m", "tests.state.child", "leases", str(state_file(project)), "held"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "taken\n"
        yield process
        process.kill()


def test_init_creates_the_state_once_and_says_where(project: Project) -> None:
    shutil.rmtree(project.root / ".reconcile")
    assert project.run("state", "init").out.startswith("sqlite:.reconcile/state.db: created\n")
    assert state_file(project).exists()
    again = project.json("state", "init").json
    assert again["created"] is False
    assert again["lineage"]
    assert "exists already" in project.run("state", "init").out


def older_state(project: Project) -> None:
    """One of version 1, without its open call: nothing of that can be read."""
    shutil.rmtree(project.root / ".reconcile")
    left_by(1, state_file(project))
    for change in ("DELETE FROM open_intents", "DELETE FROM journal WHERE seq > 5"):
        execute(state_file(project), change)


def test_no_verb_that_only_looks_migrates_a_state(project: Project, app: str) -> None:
    older_state(project)
    before = state_file(project).read_bytes()
    project.write(volume(app))
    project.write("not a plan", "old.plan")
    for verb in (
        ["plan"],
        ["drift"],
        ["show", "Volume/shop/data"],
        ["history"],
        ["doctor"],
        ["state", "list"],
        ["state", "doctor"],
        ["state", "init"],
        ["apply", "--plan", "old.plan", "--auto-approve"],
    ):
        told = " ".join(project.run(*verb, code=None).err.split())
        assert state_file(project).read_bytes() == before, verb
        if verb[0] in {"plan", "drift", "history"}:
            assert "the state has version 1, of an older program: `reconcile apply`" in told
    assert not backups.folder(state_file(project)).exists()


@pytest.mark.parametrize("verb", [["apply", "--auto-approve"], ["state", "migrate"]])
def test_a_migration_says_what_it_did_and_how_to_go_back(project: Project, verb: list[str]) -> None:
    older_state(project)
    older = state_file(project).read_bytes()
    shown = project.run(*verb, code=None)
    (copy,) = backups.folder(state_file(project)).glob("version-1-*.db")
    told = f"migrated from version 1 to {database.VERSION}; a copy of version 1 is {copy}: to go back"
    assert told in " ".join(shown.err.split())
    assert project.run("state", "migrate").out == "sqlite:.reconcile/state.db: has the newest version\n"
    assert "Volume/shop/data" in project.run("state", "list").out
    assert "migrated" not in project.run("state", "list").err
    for name in ("state.db", "state.db.key"):
        shutil.copy(
            copy.with_name(copy.name + name.removeprefix("state.db")), project.root / ".reconcile" / name
        )
    assert len(state_file(project).read_bytes()) == len(older)
    assert "the state has version 1" in project.run("plan", code=None).err


def test_a_moved_record_needs_only_its_new_name_in_the_manifest(applied: Project, app: str) -> None:
    id = applied.json("state", "list").json["records"][0]["id"]
    told = applied.run("state", "mv", f"Volume/{app}/data", f"Volume/{app}/files").out
    assert told == f"Volume/{app}/data ({id}) is now recorded as Volume/{app}/files\n"
    applied.write(volume(app, "files", "name: data, region: ams, size_gb: 10"))
    plan = applied.json("plan").json
    assert plan["steps"] == []
    assert applied.json("state", "show", f"Volume/{app}/files").json["record"]["id"] == id
    lines = applied.run("state", "show", f"Volume/{app}/files").out.splitlines()
    shown = dict(line.split(": ", 1) for line in lines)
    assert json.loads(shown["applied"])["size_gb"] == 10
    assert shown["inferred"] == "false"


def test_a_move_that_would_confuse_two_objects_is_refused(applied: Project, app: str) -> None:
    applied.write(volume(app) + volume(app, "logs") + secret(app, "PASSWORD", "env: PASSWORD"))
    applied.apply(env={"PASSWORD": "value"})
    before = applied.json("state", "list").json["records"]
    data = f"Volume/{app}/data"
    for source, target, why in [
        (data, f"Volume/{app}/logs", "is recorded already"),
        (data, "Volume/another/data", "its kind or its app"),
        (data, f"Secret/{app}/data", "an object cannot change its kind"),
        (f"Volume/{app}/none", f"Volume/{app}/new", "is not recorded"),
        (f"Secret/{app}/PASSWORD", f"Secret/{app}/OTHER", "identified by its name"),
    ]:
        refused = applied.run("state", "mv", source, target, code=1)
        assert why in refused.err
        assert "= help: " in refused.err
    assert applied.json("state", "list").json["records"] == before
    applied.run("state", "mv", data, "no address", code=64)


def test_a_record_with_an_open_call_is_not_moved(applied: Project, app: str) -> None:
    commit(applied, entry(Event.INTENT, f"Volume/{app}/data", "s1"))
    refused = applied.run("state", "mv", f"Volume/{app}/data", f"Volume/{app}/files", code=1)
    assert "unknown outcome" in refused.err


def test_an_unclaimed_object_is_shown_until_a_person_decides(applied: Project, app: str) -> None:
    commit(applied, entry(Event.DECIDED, f"Volume/{app}/data", unclaimed="vol_stray", because="too late"))
    shown = applied.run("state", "list")
    assert lines_with(shown.err, "warning[unclaimed-object]: vol_stray")
    assert applied.json("state", "list").json["unclaimed"][0]["address"] == f"Volume/{app}/data"
    applied.run("state", "forget", "--unclaimed", "vol_stray")
    assert "vol_stray" not in applied.run("state", "list").err
    applied.run("state", "forget", "--unclaimed", "vol_stray")  # an older object that a person knows, by now
    refused = applied.run("state", "forget", "--unclaimed", "stray", code=1)  # of no kind's form
    assert "no unclaimed object `stray` is known" in refused.err
    applied.run("state", "forget", code=64)


def test_an_object_that_two_addresses_have_is_named(applied: Project, app: str) -> None:
    (record,) = applied.json("state", "list").json["records"]
    double = StateRecord(
        Address("Volume", "double", "shop"), record["id"], "shop", {}, Lifecycle(), SystemClock().now()
    )
    commit(applied, put=[double])
    twice = f"{record['id']} is recorded as `Volume/shop/double` and as `Volume/{app}/data`"
    assert twice in applied.run("state", "list").err
    (problem,) = applied.json("state", "list").json["diagnostics"]
    assert (problem["code"], problem["message"]) == ("recorded-twice", twice)


def test_a_living_holder_is_named_and_only_force_takes_its_scope(
    project: Project, holder: "subprocess.Popen[str]"
) -> None:
    refused = project.run("state", "unlock", "held", code=5)
    assert f"locked by process {holder.pid} for" in refused.err
    assert "taken from" in project.run("state", "unlock", "held", "--force").out
    assert project.run("state", "unlock", "held").out == "held: free: no process holds it\n"
    assert "no run has ever locked" in project.run("state", "unlock", "other", code=1).err


def test_nothing_is_restored_while_somebody_applies(
    project: Project, holder: "subprocess.Popen[str]"
) -> None:
    refused = project.run("state", "restore", "--auto-approve", code=5)
    assert f"process {holder.pid}" in refused.err


def test_a_damaged_state_names_the_command_that_brings_it_back(applied: Project, app: str) -> None:
    known = applied.json("state", "list").json["records"]
    damage(applied, f"UPDATE objects SET body = x'00' WHERE key LIKE '%/heads/{app}'")
    for verb in (["plan"], ["state", "list"], ["apply", "--auto-approve"]):
        refused = applied.run(*verb, code=1)
        assert f"heads/{app} is not what was written" in refused.err
        assert "`reconcile state restore` restores it" in refused.err
    applied.run("state", "restore", code=64)
    told = applied.run("state", "restore", "--auto-approve").out
    assert lines_with(told, "restored from ")
    assert "salvaged: 0 newer journal rows" in told
    assert "lost" not in told
    assert applied.json("state", "list").json["records"] == known
    assert applied.json("plan").json["steps"] == []


def test_a_file_of_ones_own_is_as_good_as_any_backup(applied: Project, app: str) -> None:
    known = applied.json("state", "list").json["records"]
    made = applied.json("state", "backup", "mine.db").json["backup"]
    assert "exists already" in applied.run("state", "backup", "mine.db", code=1).err
    assert lines_with(applied.run("state", "backup").out, "backup: ")
    shutil.rmtree(applied.root / ".reconcile" / "state.db.backups")
    state_file(applied).write_bytes(b"no database")
    assert "no good backup" in applied.run("state", "restore", "--auto-approve", code=1).err
    restored = applied.json("state", "restore", made, "--auto-approve").json
    assert restored["backup"] == "mine.db"
    assert Path(restored["aside"]).exists() or (applied.root / restored["aside"]).exists()
    assert applied.json("state", "list").json["records"] == known


def test_a_lost_key_is_brought_back_from_a_backup(applied: Project) -> None:
    key = state_file(applied).with_name("state.db.key")
    sound = key.read_bytes()
    key.unlink()
    assert "state.db.key is missing" in applied.run("plan", code=1).err
    told = applied.run("state", "restore", "--auto-approve").out
    assert "fingerprint key: restored" in told
    assert "kept as" not in told
    assert key.read_bytes() == sound


def test_a_new_key_is_told_with_what_follows(applied: Project) -> None:
    shutil.rmtree(applied.root / ".reconcile" / "state.db.backups")
    state_file(applied).with_name("state.db.key").unlink()
    told = applied.run("state", "restore", "--auto-approve").out
    assert "every secret is set again by the next apply" in told


def test_a_restore_into_an_empty_folder_speaks_of_no_other_files(
    applied: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    known = applied.json("state", "list").json["records"]
    applied.run("state", "backup", "mine.db")
    empty = Project(tmp_path_factory.mktemp("empty"))
    told = empty.run("state", "restore", str(applied.root / "mine.db"), "--auto-approve").out
    assert "kept as" not in told
    assert "damaged" not in told
    assert "salvaged" not in told
    assert "lost: perhaps the newest journal rows" in told
    assert empty.json("state", "list").json["records"] == known
    assert not list(empty.root.rglob("*.damaged-*"))


def test_a_sound_state_that_gives_way_to_a_backup_is_not_called_damaged(applied: Project) -> None:
    applied.run("state", "backup", "mine.db")
    told = applied.run("state", "restore", "mine.db", "--auto-approve").out
    assert "the files that it replaced are kept as" in told
    assert "the damaged" not in told


def test_a_sound_state_is_left_alone(applied: Project) -> None:
    assert "is not damaged" in applied.run("state", "restore", "--auto-approve", code=1).err


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_terminal_is_asked_before_a_restore(applied: Project, typed: bytes, code: int) -> None:
    damage(applied, "DELETE FROM objects WHERE key = 'state.json'")
    ended, shown = on_a_terminal(applied, "state", "restore", typed=typed)
    assert ended == code
    assert "Put the state of the newest good backup at sqlite:.reconcile/state.db?" in shown
    assert "Files that are there are kept as *.damaged-TIME." in shown
    applied.run("state", "list", code=code)


def test_a_terminal_is_asked_whether_to_go_on_with_an_older_copy(applied: Project, tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "home")}
    folder, older = applied.root / ".reconcile", tmp_path / "older"
    shutil.copytree(folder, older)
    applied.run("state", "forget", "--unclaimed", "all", env=home)
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    applied.env |= home
    ended, shown = on_a_terminal(applied, "state", "restore", typed=b"n\n")
    assert (ended, "Go on with it as it is?" in shown, "newest good backup" in shown) == (1, True, False), (
        shown
    )


def test_a_link_and_what_it_points_to_are_one_state(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    (project.root / "link.db").symlink_to(project.root / "elsewhere" / "state.db")
    (project.root / "elsewhere").mkdir(mode=0o700)
    project.run("state", "init", "--state", "sqlite:link.db")
    project.apply("--state", "sqlite:link.db")
    assert (project.root / "elsewhere" / "state.db").is_file()
    for url in ("sqlite:link.db", "sqlite:elsewhere/state.db"):
        assert project.apply("--state", url).json["steps"] == []
    assert len(sandbox.volumes(app)) == 1


def test_a_working_directory_that_is_gone_is_told(project: Project, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {shlex.join(RECONCILE)} state list"
    ran = subprocess.run(["sh", "-c", script], env=project.env, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: the working directory is gone")


def test_a_user_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert attribution.holder().startswith(f"uid {os.getuid()}@")


def test_an_empty_id_is_no_answer(project: Project) -> None:
    assert "--adopt is empty" in project.run("resolve", "PostgresCluster/orders", "--adopt", "", code=64).err


def test_what_a_restore_lost_is_asked_about_before_a_cluster_is_made(
    applied: Project, sandbox: Sandbox, app: str
) -> None:
    """The row that told of the cluster cannot be read: it may be there already, and no list shows it."""
    old = applied.root / "old.db"
    applied.run("state", "backup", str(old))
    applied.write(volume(app) + cluster(f"db-{app}"))
    creating = applied.creating(f"PostgresCluster/db-{app}")
    applied.apply(*creating)
    shutil.rmtree(applied.root / ".reconcile" / "state.db.backups")
    state_file(applied).write_bytes(b"no database any more")
    applied.run("state", "restore", str(old), "--auto-approve")
    asked = applied.apply(*creating, code=3)
    (question,) = [item for item in asked.json["diagnostics"] if item["code"] == "unknown-outcome"]
    assert f"PostgresCluster/db-{app}" in question["message"]
    assert len(sandbox.clusters(f"db-{app}")) == 1
    id = sandbox.clusters(f"db-{app}")[0]["id"]
    adopted = cluster(f"db-{app}").replace(f"name: db-{app}", f"name: db-{app}, id: {id}")
    applied.write(volume(app) + adopted)
    assert "state-incomplete" in {item["code"] for item in applied.apply().json["diagnostics"]}
    listed = applied.run("state", "list").err
    assert "state-incomplete" in listed
    assert "metadata.id: " not in listed
    applied.run("state", "forget", "--unclaimed", "lost-rows")
    assert applied.apply().json["diagnostics"] == []
    assert len(sandbox.clusters(f"db-{app}")) == 1
