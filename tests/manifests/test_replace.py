"""New files: complete or not there at all, and never in the place of another one."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.manifests.writing.replace import Replacement, replace_files
from reconciler.project.files import write_new

WAYS: dict[str, Callable[[Path], None]] = {
    "new": lambda path: write_new(path, b"all of it\n"),
    "private": lambda path: write_new(path, b"all of it\n", mode=0o600),
    "import": lambda path: replace_files([Replacement(path, b"all of it\n", new=True)]),
}

each_way = pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)


@pytest.fixture(params=["links", "no links"], autouse=True)
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no hard links."""

    def link(source: object, target: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr(os, "link", link)


@each_way
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_what_is_cut_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], failure: BaseException
) -> None:
    def cut(descriptor: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else ReconcilerError):
        write(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@each_way
def test_it_is_complete_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    """A kill at any moment leaves no half file: all is on the disk before the name is."""
    seen: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            seen.append(f"{(tmp_path / 'file').exists()} {os.fstat(descriptor).st_size}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write(tmp_path / "file")
    assert seen == ["False 10"]
    assert (tmp_path / "file").read_text() == "all of it\n"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").stat().st_nlink == 1


@each_way
def test_nothing_that_came_meanwhile_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    """Also if it holds the same, and is somebody's who makes it at this moment."""
    fsync = os.fsync

    def late(descriptor: int) -> None:
        fsync(descriptor)
        (tmp_path / "file").write_text("all of it\n")

    monkeypatch.setattr(os, "fsync", late)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # nobody saw it coming
    with pytest.raises(ReconcilerError):
        write(tmp_path / "file")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "all of it\n"


@each_way
def test_a_link_is_not_followed(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReconcilerError):
        write(tmp_path / "file")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "file").is_symlink()


def test_what_is_private_is_nobody_elses_and_a_new_manifest_is_as_any_file(tmp_path: Path) -> None:
    modes = {}
    mask = os.umask(0o027)
    try:
        for name, write in WAYS.items():
            write(tmp_path / name)
            modes[name] = stat.S_IMODE((tmp_path / name).stat().st_mode)
    finally:
        os.umask(mask)
    assert modes == {"new": 0o640, "private": 0o600, "import": 0o640}
