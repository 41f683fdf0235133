"""What a checkout brings must not make a command write elsewhere: links, other owners, rights of others."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.project.store import require_private
from reconciler.sandbox.lock import locked, running_at
from reconciler.state.places.sqlite.locks import is_locked, try_lock
from tests.cli.harness import Project, Sandbox, volume
from tests.inprocess import Command
from tests.inprocess import volume as one_volume


@pytest.fixture
def reconcile(reconcile: Command) -> Command:
    """In a project with one volume."""
    reconcile.write("manifests/data.yaml", one_volume())
    return reconcile


def test_a_lock_that_is_a_link_leaves_its_target_alone(project: Project, app: str) -> None:
    project.write(volume(app))
    precious = project.root / "precious"
    precious.write_text("mine")
    folder = project.root / ".reconcile"
    (folder / "sandbox.db.lock").symlink_to(precious)
    refused = project.run("plan", "--sandbox", code=1)
    assert ".reconcile/sandbox.db.lock is a symbolic link" in refused.err
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["state.db", "state.db.lock", "sandbox-state.db-wal", "sandbox.db"])
def test_no_file_of_ours_may_be_a_link(project: Project, app: str, name: str) -> None:
    project.write(volume(app))
    (project.root / "elsewhere").mkdir()
    folder = project.root / ".reconcile"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / name).symlink_to(project.root / "elsewhere" / name)
    for arguments in (("state", "init"), ("plan", "--sandbox"), ("drift", "--sandbox", "--save-baseline")):
        assert f".reconcile/{name} is a symbolic link" in project.run(*arguments, code=1).err
    assert list((project.root / "elsewhere").iterdir()) == []


def test_a_folder_of_ours_that_is_a_link_is_refused(project: Project, app: str) -> None:
    project.write(volume(app))
    (project.root / "elsewhere").mkdir()
    shutil.rmtree(project.root / ".reconcile", ignore_errors=True)
    (project.root / ".reconcile").symlink_to(project.root / "elsewhere")
    for arguments in (("state", "init"), ("plan",), ("plan", "--sandbox"), ("state", "list")):
        assert ".reconcile is a symbolic link" in project.run(*arguments, code=1).err
    assert list((project.root / "elsewhere").iterdir()) == []


def test_a_folder_of_ours_is_closed_to_others(project: Project, app: str, sandbox: Sandbox) -> None:
    project.write(volume(app))
    (project.root / ".reconcile").chmod(0o777)
    project.run("plan")
    assert stat.S_IMODE((project.root / ".reconcile").stat().st_mode) == 0o700


def test_an_environments_own_folder_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / ".reconcile").mkdir()
    (tmp_path / ".reconcile" / "prod").symlink_to(tmp_path)
    with pytest.raises(ReconcilerError, match="prod is a symbolic link"):
        require_private(tmp_path, tmp_path / ".reconcile" / "prod")
    require_private(tmp_path, tmp_path / "not there" / "prod")
    (tmp_path / "file").touch()
    with pytest.raises(ReconcilerError, match="file is not a folder"):
        require_private(tmp_path, tmp_path / "file")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = tmp_path / ".reconcile"
    private.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ReconcilerError, match=r"\.reconcile belongs to another user"):
        require_private(tmp_path, private)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    require_private(tmp_path, private)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("project", "folder", "file", "whose"),
    [
        (8, 8, 8, None),
        (8, 0, 8, None),
        (8, 0, 0, None),
        (8, 9, 8, ".reconcile"),
        (8, 8, 9, "state.db"),
        (0, 8, 0, ".reconcile"),
    ],
)
def test_root_uses_only_what_belongs_to_it_or_to_the_owner_of_the_project(
    tmp_path: Path, project: int, folder: int, file: int, whose: str | None
) -> None:
    """Jobs in containers run as root on a checkout of somebody else's."""
    private = tmp_path / ".reconcile"
    private.mkdir()
    (private / "state.db").touch()
    for path, owner in ((private / "state.db", file), (private, folder), (tmp_path, project)):
        os.chown(path, owner, -1)
    if whose is None:
        require_private(tmp_path, private)
        return
    with pytest.raises(ReconcilerError, match=f"{whose} belongs to another user"):
        require_private(tmp_path, private)


def test_locks_follow_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("world.db.lock", "state.db.lock"):
        (tmp_path / name).symlink_to(precious)
    with pytest.raises(ReconcilerError, match="is a symbolic link"):
        running_at(tmp_path / "world.db")
    with pytest.raises(ReconcilerError, match="is a symbolic link"), locked(tmp_path / "world.db"):
        pass
    for look in (try_lock, is_locked):
        with pytest.raises(OSError, match="symbolic links"):
            look(tmp_path / "state.db.lock", 1)
    assert precious.read_text() == "mine"


def test_a_sandbox_takes_no_database_that_is_a_link(project: Project) -> None:
    (project.root / "world.db").symlink_to(project.root / "precious")
    assert "world.db is a symbolic link" in project.run("sandbox", "--db", "world.db", code=1).err
    assert not (project.root / "precious").exists()


def test_no_output_goes_through_a_link(reconcile: Command) -> None:
    precious = reconcile.write("precious", "mine")
    (reconcile.root / "out").symlink_to(precious)
    for line, code, why in (
        ("plan --out out", 64, ""),
        ("plan --report json=out", 64, "is not a regular file"),
        ("schema --out out", 1, ""),
        ("new Volume --out out", 1, ""),
    ):
        assert why in reconcile(line, code=code).err
        assert (reconcile.root / "out").is_symlink()
    assert precious.read_text() == "mine"


def test_a_baseline_is_kept_in_no_link(project: Project, app: str) -> None:
    project.write(volume(app))
    (project.root / ".reconcile" / "drift-baseline.json").symlink_to(project.root / "precious")
    project.run("drift", "--save-baseline", code=1)
    assert not (project.root / "precious").exists()


@pytest.mark.parametrize(
    "name", ["manifests/data.yaml", "reconcile.yaml", "state.db", "state.db.key", "state.db.lock"]
)
def test_no_report_or_plan_replaces_what_the_project_is_made_of(reconcile: Command, name: str) -> None:
    reconcile.write("reconcile.yaml", "state: sqlite:state.db\nplatform: {base_url: 'http://127.0.0.1:9'}\n")
    reconcile("state init")
    (reconcile.root / "state.db.lock").touch()
    before = (reconcile.root / name).read_bytes()
    for line in (f"plan --out {name}", f"plan --report json={name}", f"validate --report json=./{name}"):
        ended = reconcile(line, code=64)
        assert name in ended.err
    assert (reconcile.root / name).read_bytes() == before


def test_what_is_no_database_beside_is_replaced(reconcile: Command) -> None:
    reconcile.write("a.key", "mine")
    reconcile.write("a", "not a database")
    reconcile("validate --report json=a.key")
    assert (reconcile.root / "a.key").read_text().startswith("{")
