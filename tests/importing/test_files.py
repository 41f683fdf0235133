"""Where imported manifests go: existing bytes stay, and a file is complete or not there at all."""

import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.core.errors import ReconcilerError, Refused
from reconciler.importing import files
from reconciler.importing.files import put_all
from reconciler.manifests.writing.replace import Replacement, put
from reconciler.reports.diagnostics import render
from tests.importing.scene import Scene, actions, cluster, volume, volumes

OLD = "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: old, app: shop, id: vol_old}\nspec: {}"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {volumes("shop"): [volume(), volume("vol_old", name="old")]})


def names(scene: Scene) -> list[str]:
    return sorted(path.name for path in scene.folder.iterdir())


BYTES = {
    "no newline": OLD.encode(),
    "comment": OLD.encode() + b"\n# the end",
    "open document": OLD.encode() + b"\n---\n",
    "ended": OLD.encode() + b"\n...\n",
    "CRLF and BOM": b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode() + b"\r\n",
    "CRLF": OLD.replace("\n", "\r\n").encode(),
    "BOM": b"\xef\xbb\xbf",
    "no document": b"# nothing but a comment",
    "empty": b"",
}


@pytest.mark.parametrize("before", BYTES.values(), ids=BYTES)
def test_every_byte_of_an_existing_file_stays(scene: Scene, before: bytes) -> None:
    path = scene.write(before, "shop.yaml")
    scene.run("shop")
    after = path.read_bytes()
    assert after.startswith(before)
    assert names(scene) == ["shop.yaml"]
    assert (b"\r\n" in before) == (b"\r\n" in after)
    assert after.count(b"\n") == after.count(b"\r\n") or b"\r\n" not in after
    assert ("Volume/shop/data", "adopt") in actions(scene.plan())
    assert scene.run("shop").entries == []
    assert path.read_bytes() == after


def test_a_file_whose_last_value_a_line_break_would_change_is_left_alone(scene: Scene) -> None:
    text = OLD.replace("spec: {}", "spec:\n  fstype: |+\n    ext4")
    path = scene.write(text, "shop.yaml")
    scene.run("shop")
    assert path.read_text() == text
    assert names(scene) == ["shop-2.yaml", "shop.yaml"]


def test_what_is_new_is_added_behind_what_an_earlier_import_wrote(scene: Scene) -> None:
    scene.run("shop")
    before = scene.read("shop.yaml")
    scene.live[volumes("shop")].append(volume("vol_3", name="logs"))
    scene.run("shop")
    after = scene.read("shop.yaml")
    assert after.startswith(before)
    assert after.count("# Imported from the platform") == 1
    assert after.removeprefix(before).startswith("---\napiVersion: reconciler/v1\n")


def test_names_that_differ_in_case_only_are_different_files(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {volumes(app): [volume(f"vol_{app}")] for app in ("Shop", "shop", "SHOP", "b")})
    scene.write("", "B.yaml")
    scene.run("Shop", "shop", "SHOP", "b")
    assert names(scene) == ["B.yaml", "SHOP.yaml", "Shop-2.yaml", "b-2.yaml", "shop-3.yaml"]


def test_an_app_that_is_called_like_the_settings_file_does_not_touch_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {volumes("reconcile"): [volume()]})
    scene.write("manifests: [.]\n", "reconcile.yaml")
    scene.run("reconcile")
    assert scene.read("reconcile.yaml") == "manifests: [.]\n"
    assert actions(scene.plan()) == [("Volume/reconcile/data", "adopt")]


def test_an_organization_with_a_hostile_slug_stays_in_the_folder(tmp_path: Path) -> None:
    slug = "../../.ssh/x"
    live: dict[str, Any] = {"/v1/postgres/orders0000000000": {"data": cluster(organization={"slug": slug})}}
    scene = Scene(tmp_path, live)
    scene.run(alone=["orders0000000000"])
    assert names(scene) == ["org-ssh-x.yaml"]
    assert actions(scene.plan()) == [("PostgresCluster/orders", "adopt")]


def test_symbolic_links_stay_links(scene: Scene, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    scene.folder.symlink_to(real)
    (real / "kept.yaml").write_text("# kept\n")
    (real / "shop.yaml").symlink_to("kept.yaml")
    scene.run("shop")
    assert (real / "shop.yaml").is_symlink()
    assert (real / "kept.yaml").read_text().startswith("# kept\n---\n")
    assert scene.run("shop").entries == []


def test_permissions_of_an_existing_file_stay(scene: Scene) -> None:
    path = scene.write("# kept\n", "shop.yaml")
    path.chmod(0o640)
    scene.run("shop")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("obstacle", ["read-only", "hard-linked", "a folder"])
def test_a_file_that_cannot_be_replaced_as_people_expect_is_left_alone(scene: Scene, obstacle: str) -> None:
    path = scene.write(OLD, "shop.yaml")
    if obstacle == "read-only":
        path.chmod(0o444)
    elif obstacle == "hard-linked":
        (scene.folder / "other.txt").hardlink_to(path)
    else:
        path.unlink()
        path.mkdir()
    before = path.lstat()
    scene.run("shop")
    assert "name: data" in scene.read("shop-2.yaml")
    after = path.lstat()
    assert (after.st_ino, after.st_nlink, after.st_mtime) == (before.st_ino, before.st_nlink, before.st_mtime)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_of_an_existing_file_stays(scene: Scene) -> None:
    path = scene.write(OLD, "shop.yaml")
    os.chown(path, 1234, 1235)
    scene.run("shop")
    assert "name: data" in path.read_text()
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


@pytest.mark.parametrize("before", ["", OLD], ids=["made", "changed"])
def test_a_file_that_somebody_wrote_meanwhile_is_not_replaced(scene: Scene, before: str) -> None:
    if before:
        scene.write(before, "shop.yaml")
    planned = scene.planned(scene.found("shop"))
    scene.write("mine now", "shop.yaml")
    with pytest.raises(ReconcilerError, match="changed meanwhile"):
        anyio.run(put_all, planned)
    assert scene.read("shop.yaml") == "mine now"
    assert names(scene) == ["shop.yaml"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_gets_the_permissions_of_new_files(scene: Scene, mask: int) -> None:
    before = os.umask(mask)
    try:
        scene.run("shop")
    finally:
        os.umask(before)
    assert (scene.folder / "shop.yaml").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_full_disk_leaves_the_old_file_and_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    scene.write(OLD, "shop.yaml")
    planned = scene.planned(scene.found("shop"))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReconcilerError, match="No space left on device"):
        anyio.run(put_all, planned)
    assert scene.read("shop.yaml") == OLD
    assert names(scene) == ["shop.yaml"]


def test_a_cancelled_import_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apps = [f"app{number}" for number in range(5)]
    scene = Scene(tmp_path, {volumes(app): [volume(f"vol_{app}")] for app in apps})
    planned = scene.planned(scene.found(*apps))
    scopes: list[anyio.CancelScope] = []

    def put_two(change: Replacement) -> None:
        put(change)
        if change is planned[1].change:
            scopes[0].cancel()

    async def interrupted() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await put_all(planned)

    monkeypatch.setattr(files, "put", put_two)
    anyio.run(interrupted)
    assert names(scene) == ["app0.yaml", "app1.yaml"]
    assert len(scene.plan().changes) == 2
    monkeypatch.undo()
    scene.run(*apps)
    assert len(scene.plan().changes) == 5


def test_nothing_is_written_when_the_result_would_not_be_valid(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "API_VERSION", "reconciler/v0")
    with pytest.raises(Refused) as refused:
        scene.run("shop")
    assert [each.code for each in refused.value.diagnostics] == ["unknown-api-version"] * 2
    told = render(refused.value.diagnostics, lambda file, line: None)
    assert "= note: in the text for manifests/shop.yaml" in told
    assert tempfile.gettempdir() not in told
    assert not scene.folder.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_takes_no_file_is_told(scene: Scene) -> None:
    scene.folder.mkdir(mode=0o500)
    with pytest.raises(ReconcilerError, match="Permission denied"):
        scene.run("shop")
