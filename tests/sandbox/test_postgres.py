"""Clusters as real PostgreSQL servers. Source: docs/sandbox.md, "Clusters with real data"."""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reconciler.cli.main import run
from reconciler.core.errors import ReconcilerError
from reconciler.sandbox import postgres
from reconciler.sandbox.plugin import RunningSandbox
from tests.providers.postgres import installed_postgres
from tests.sandbox.platform import Platform
from tests.sandbox.test_command import started

PROVISIONING_S = 150


class Real(Platform):
    """A platform whose clusters are servers."""

    def __init__(self, db: Path | None = None, **options: Any) -> None:
        super().__init__(db, postgres="real", **options)

    def ready(self, **body: Any) -> str:
        id: str = self.cluster(**body)["id"]
        self.advance(PROVISIONING_S)
        return id

    def get(self, id: str) -> dict[str, Any]:
        cluster: dict[str, Any] = self.ok("GET", f"/v1/postgres/{id}")["data"]
        return cluster

    def port(self, id: str) -> int:
        port: int = self.get(id)["endpoints"]["primary"]["direct"]["port"]
        return port

    def sql(self, id: str, statement: str) -> list[tuple[Any, ...]]:
        return sql(self.port(id), statement)

    def back_up(self, id: str) -> dict[str, Any]:
        """A backup one second later."""
        self.advance(1)
        backup: dict[str, Any] = self.ok("POST", f"/_sandbox/world/clusters/{id}/backups")
        return backup

    def now(self) -> str:
        now: str = self.ok("GET", "/_sandbox/clock")["now"]
        return now

    def restored(self, source: str, **target: str) -> str:
        """The id of a restored cluster when its provisioning has ended."""
        id: str = self.ok("POST", f"/v1/postgres/{source}/restore", target)["data"]["id"]
        self.advance(PROVISIONING_S)
        return id

    def folder(self, id: str) -> Path:
        return Path(self.sql(id, "SHOW data_directory")[0][0]).parent


def sql(port: int, statement: str, password: str = "sandbox") -> list[tuple[Any, ...]]:
    url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def rows(platform: Real, id: str) -> list[int]:
    return [number for (number,) in platform.sql(id, "SELECT n FROM orders ORDER BY n")]


def is_answered(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def installed() -> None:
    installed_postgres()


@pytest.fixture(scope="module")
def platform(installed: None) -> Iterator[Real]:
    with Real() as platform:
        yield platform


def test_a_ready_cluster_answers_at_its_endpoints_with_the_token_as_password(platform: Real) -> None:
    id = platform.ready()
    primary = platform.get(id)["endpoints"]["primary"]
    assert primary["direct"] == primary["pooler"] == {"host": "127.0.0.1", "port": platform.port(id)}
    assert platform.sql(id, "SELECT current_user, pg_is_in_recovery()") == [("postgres", False)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        sql(platform.port(id), "SELECT 1", password="other")


def test_a_restored_backup_holds_what_was_there_when_it_ended(platform: Real) -> None:
    source = platform.ready()
    platform.sql(source, "CREATE TABLE orders (n int); INSERT INTO orders VALUES (1)")
    backup = platform.back_up(source)
    platform.sql(source, "INSERT INTO orders VALUES (2)")
    copy = platform.restored(source, backup_id=backup["id"])
    assert (rows(platform, copy), rows(platform, source)) == ([1], [1, 2])
    assert platform.port(copy) != platform.port(source)
    assert backup["size_bytes"] > 10_000_000


def test_a_restored_moment_holds_exactly_what_was_committed_until_then(platform: Real) -> None:
    source = platform.ready()
    platform.sql(source, "CREATE TABLE orders (n int)")
    moments = []
    for number in range(1, 5):
        platform.sql(source, f"INSERT INTO orders VALUES ({number})")
        moments.append(platform.now())
        platform.advance(60)
        if number == 2:
            platform.back_up(source)
    copies = [platform.restored(source, pitr_time=moment) for moment in moments]
    assert [rows(platform, copy) for copy in copies] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]


def test_what_was_restored_can_be_changed_and_restored_again(platform: Real) -> None:
    source = platform.ready()
    platform.sql(source, "CREATE TABLE orders (n int); INSERT INTO orders VALUES (1)")
    copy = platform.restored(source, pitr_time=platform.now())
    platform.sql(copy, "INSERT INTO orders VALUES (2)")
    before = platform.now()
    platform.advance(1)
    platform.sql(copy, "INSERT INTO orders VALUES (3)")
    second = platform.restored(copy, pitr_time=before)
    assert [rows(platform, id) for id in (source, copy, second)] == [[1], [1, 2, 3], [1, 2]]


def test_a_moment_before_the_first_backup_ended_means_that_backup(platform: Real) -> None:
    source = platform.cluster()["id"]
    platform.advance(PROVISIONING_S + 60)
    ready_at = next(item for item in platform.world()["clusters"] if item["id"] == source)["ready_at"]
    platform.sql(source, "CREATE TABLE orders (n int)")
    copy = platform.restored(source, pitr_time=ready_at)
    assert platform.sql(copy, "SELECT to_regclass('orders')") == [(None,)]


def test_a_moment_of_a_clock_that_runs_is_found(platform: Real) -> None:
    with Real(clock="x3600", monotonic=time.monotonic) as running:
        source = running.ready()
        running.sql(source, "CREATE TABLE orders (n int); INSERT INTO orders VALUES (1)")
        moment = running.now()
        running.sql(source, "INSERT INTO orders VALUES (2)")
        assert rows(running, running.restored(source, pitr_time=moment)) == [1]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_deleted_cluster_is_gone_with_its_backups(platform: Real, by_hand: bool) -> None:
    id = platform.ready()
    port, folder = platform.port(id), platform.folder(id)
    if by_hand:
        platform.ok("PATCH", f"/_sandbox/world/clusters/{id}", {"status": "deleted"})
    else:
        platform.ok("DELETE", f"/v1/postgres/{id}")
        platform.advance(60)
    assert platform.get(id)["endpoints"] == {}
    assert not is_answered(port)
    assert not folder.exists()


def test_what_a_crashed_server_was_to_do_has_failed(platform: Real, caplog: pytest.LogCaptureFixture) -> None:
    id = platform.ready()
    port, pid = platform.port(id), platform.folder(id) / "data" / "postmaster.pid"
    os.kill(int(pid.read_text().split()[0]), signal.SIGKILL)
    while is_answered(port):
        pass  # a kill takes a moment
    assert platform.back_up(id)["status"] == "failed"
    copy = platform.restored(id, pitr_time=platform.now())
    assert platform.get(copy)["status"] == "failed"
    assert f"cluster {copy}: psql failed" in caplog.text


@pytest.mark.usefixtures("installed")
def test_a_seed_has_empty_servers_and_its_backups_hold_nothing() -> None:
    orders = {"id": "orders", "created_at": "2026-03-01T11:00:00Z", "backups": [{"id": "../old"}]}
    with Real(seed={"clusters": [orders, {"id": "gone", "status": "deleted"}]}) as platform:
        targets = [
            {"pitr_time": platform.now()},
            {"pitr_time": "2026-03-01T11:30:00Z"},
            {"backup_id": "../old"},
        ]
        copies = [platform.restored("orders", **target) for target in targets]
        assert [platform.get(copy)["status"] for copy in copies] == ["ready", "ready", "failed"]
        assert platform.sql("orders", "SELECT 1") == [(1,)]
        folder = platform.folder("orders").parent
    assert not folder.exists()


def test_a_cluster_whose_backups_are_lost_cannot_be_restored(
    platform: Real, caplog: pytest.LogCaptureFixture
) -> None:
    id = platform.ready()
    shutil.rmtree(platform.folder(id) / "backups")
    copy = platform.restored(id, pitr_time=platform.now())
    assert platform.get(copy)["status"] == "failed"
    assert f"cluster {copy}: cluster {id} has no base backup" in caplog.text


@pytest.fixture
def db(installed: None, tmp_path: Path) -> Iterator[Path]:
    db = tmp_path / "world.db"
    yield db
    db.unlink()
    Real().sandbox.close()  # removes the folder of the other


def test_data_are_kept_with_the_world_and_servers_end_with_the_sandbox(db: Path) -> None:
    with Real(db) as platform:
        id, lost = platform.ready(), platform.ready()
        platform.sql(id, "CREATE TABLE orders (n int); INSERT INTO orders VALUES (1)")
        moment, port, folder = platform.now(), platform.port(id), platform.folder(id)
        (folder.parent / lost).rename(folder.parent / "stray")
    assert not is_answered(port)
    with Real(db) as platform:
        assert (rows(platform, id), platform.port(id)) == ([1], port)
        assert platform.sql(lost, "SELECT to_regclass('orders')") == [(None,)]
        assert not (folder.parent / "stray").exists()
        platform.sql(id, "INSERT INTO orders VALUES (2)")
        assert rows(platform, platform.restored(id, pitr_time=moment)) == [1, 2]  # the clock stood still
    with socket.create_server(("127.0.0.1", port)), Real(db) as platform:
        assert platform.port(id) != port
        (folder / "data" / "PG_VERSION").write_text("1")
    with pytest.raises(ReconcilerError, match=f"server of cluster {id} did not start: .*version"):
        Real(db)


def test_a_cluster_whose_data_were_lost_while_it_was_created_has_failed(db: Path) -> None:
    with Real(db) as platform:
        folder = platform.folder(platform.ready()).parent
        id = platform.cluster()["id"]
    shutil.rmtree(folder / id)
    with Real(db) as platform:
        platform.advance(PROVISIONING_S)
        assert platform.get(id)["status"] == "failed"
        platform.ok("PATCH", f"/_sandbox/world/clusters/{id}", {"status": "ready"})
        assert platform.back_up(id)["status"] == "failed"


def test_no_server_outlives_a_killed_sandbox(db: Path) -> None:
    with started("--postgres", "real", "--db", str(db)) as client:
        body = {"org_slug": "personal", "plan": "basic", "region": "ams"}
        id = client.post("/v1/postgres", json=body).json()["data"]["id"]
        client.post("/_sandbox/clock", json={"advance_s": PROVISIONING_S})
        port = client.get(f"/v1/postgres/{id}").json()["data"]["endpoints"]["primary"]["direct"]["port"]
        ((folder,),) = sql(port, "SHOW data_directory")
        os.kill(int(Path(f"{db}.lock").read_text().split()[1]), signal.SIGKILL)
    with (Path(folder).parents[1] / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # its watchdog is done
    assert not is_answered(port)


@pytest.mark.reconcile_sandbox(postgres="real")
def test_the_fixture_has_real_clusters(installed: None, reconcile_sandbox: RunningSandbox) -> None:
    body = {"org_slug": "personal", "plan": "basic", "region": "ams"}
    id = reconcile_sandbox.ok("POST", "/v1/postgres", body)["data"]["id"]
    reconcile_sandbox.advance(PROVISIONING_S)
    reconcile_sandbox.advance(1)
    assert reconcile_sandbox.back_up_cluster(id)["status"] == "completed"
    cluster = reconcile_sandbox.ok("GET", f"/v1/postgres/{id}")["data"]
    assert sql(cluster["endpoints"]["primary"]["direct"]["port"], "SELECT 1") == [(1,)]


@pytest.fixture
def no_postgres(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_postgres")
def test_without_postgresql_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECONCILE_SANDBOX_POSTGRES", "real")
    assert run(["sandbox"]) == 1
    assert "error: install postgresql" in capsys.readouterr().err


def test_binaries_are_those_of_the_version_or_the_newest_or_on_the_path(
    no_postgres: None, tmp_path: Path
) -> None:
    (tmp_path / "initdb").touch(mode=0o755)
    assert postgres._binaries("16") == tmp_path.resolve()
    for version in ("9.6", "16", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    found = [postgres._binaries(version).parts[-2] for version in ("16", "18", "")]
    assert found == ["16", "17", "17"]


def test_root_needs_the_account_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", unknown)
    with pytest.raises(ReconcilerError, match="there is no user `postgres`"):
        postgres._account()


def test_a_folder_that_somebody_else_made_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    db = tmp_path / "world.db"
    folder = postgres._folder(db, os.geteuid())
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")
    (folder / ".db").unlink()
    with pytest.raises(ReconcilerError, match="belongs to somebody else"):
        postgres._folder(db, os.geteuid())


def test_the_folder_of_a_world_is_kept_as_long_as_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    db = tmp_path / "world.db"
    db.touch()
    folder = postgres._folder(db, os.geteuid())
    others = [postgres._folder(other, os.geteuid()) for other in (tmp_path / "other.db", None)]
    assert postgres._folder(db, os.geteuid()) == folder
    assert [other.exists() for other in others] == [False, True]
    db.unlink()
    postgres._folder(None, os.geteuid())
    assert not folder.exists()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="use none or real"):
        Platform(postgres="fake")


def test_who_does_not_ask_for_it_does_not_import_it() -> None:
    code = "import sys; from reconciler.sandbox.core import Sandbox; Sandbox().close(); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reconciler.sandbox.core" in ran.stdout.split()
    assert "reconciler.sandbox.postgres" not in ran.stdout.split()
