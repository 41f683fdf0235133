"""Which files are read, under which names."""

import os
import threading
from pathlib import Path

import pytest

from reconciler.core.reporter import Reporter
from reconciler.manifests.load import load
from tests.manifests.conftest import LoadFiles, codes, volume


def names(directory: Path) -> tuple[str, ...]:
    return load([str(directory)], root=directory).files


def test_directories_are_searched_in_order_and_hidden_entries_are_not(load_files: LoadFiles) -> None:
    files = ["b.yml", "a.yaml", "sub/deep/c.yaml", ".hidden.yaml", ".git/d.yaml", "README.md", "x.yaml.bak"]
    loaded = load_files(dict.fromkeys(files, volume("data")))
    assert loaded.files == ("a.yaml", "b.yml", "sub/deep/c.yaml")


def test_spans_and_records_name_a_file_relative_to_the_root(load_files: LoadFiles) -> None:
    (resource,) = load_files({"apps/shop.yaml": volume("data")}).resources
    span = resource.span("metadata", "name")
    assert span is not None
    assert resource.file == span.file == "apps/shop.yaml"


def test_relative_paths_are_looked_up_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "a.yaml").write_text(volume("data"))
    monkeypatch.chdir(tmp_path / "apps")
    assert load(["a.yaml"], root=tmp_path).files == ("apps/a.yaml",)
    assert load(["."], root=tmp_path).files == ("apps/a.yaml",)


def test_a_file_outside_the_root_keeps_the_name_that_was_given(tmp_path: Path) -> None:
    outside = tmp_path / "a.yaml"
    outside.write_text(volume("data"))
    (tmp_path / "project").mkdir()
    assert load([str(outside)], root=tmp_path / "project").files == (str(outside),)


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(volume("data"))
    loaded = load([str(tmp_path), str(tmp_path / "a.yaml")], root=tmp_path)
    assert loaded.files == ("a.yaml",)
    assert loaded.diagnostics == ()


def test_an_explicit_file_needs_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_text(volume("data"))
    assert len(load([str(tmp_path / "manifest")], root=tmp_path).resources) == 1


def test_a_dash_reads_standard_input(tmp_path: Path) -> None:
    loaded = load(["-", "-"], root=tmp_path, stdin=lambda: volume("data").encode())
    assert loaded.files == ("<stdin>",)
    assert loaded.resources[0].file == "<stdin>"


def test_a_dash_without_standard_input_is_an_error(tmp_path: Path) -> None:
    assert codes(load(["-"], root=tmp_path)) == ["unreadable-file"]


def test_a_missing_path_is_an_error_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(volume("data"))
    loaded = load([str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")], root=tmp_path)
    assert codes(loaded) == ["missing-path"]
    assert len(loaded.resources) == 1


def test_a_directory_without_manifests_is_warned_of(tmp_path: Path) -> None:
    assert codes(load([str(tmp_path)], root=tmp_path)) == ["no-manifests"]


def test_a_path_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert codes(load([str(tmp_path)], root=tmp_path)) == ["unreadable-file"]


def test_symbolic_links_out_of_the_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.yaml").write_text(volume("data"))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file.yaml").symlink_to(tmp_path / "outside" / "a.yaml")
    (tree / "folder").symlink_to(tmp_path / "outside")
    loaded = load([str(tree)], root=tree)
    assert codes(loaded)[:2] == ["symlink-outside", "symlink-outside"]
    assert loaded.files == ()


def test_symbolic_links_inside_the_directory_are_read_once(tmp_path: Path) -> None:
    (tmp_path / ".versions").mkdir()
    (tmp_path / ".versions" / "a.yaml").write_text(volume("data"))
    (tmp_path / "a.yaml").symlink_to(tmp_path / ".versions" / "a.yaml")
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert names(tmp_path) == ("a.yaml",)


def test_a_pipe_in_a_directory_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "a.yaml").write_text(volume("data"))
    assert names(tmp_path) == ("a.yaml",)


def test_a_link_to_a_pipe_in_a_directory_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.yaml").symlink_to(tmp_path / "pipe")
    (tmp_path / "b.yaml").write_text(volume("data"))
    assert names(tmp_path) == ("b.yaml",)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_unread(device: str, tmp_path: Path) -> None:
    loaded = load([device], root=tmp_path)
    assert [(item.code, item.message) for item in loaded.diagnostics] == [
        ("unreadable-file", f"`{device}` is neither a file nor a pipe")
    ]
    assert loaded.files == ()


def test_a_named_pipe_is_read_to_the_limit_and_no_further(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    left: list[bool] = []

    def write() -> None:
        with pipe.open("wb", buffering=0) as end:
            try:
                while True:
                    end.write(b"#" * 65_536)
            except BrokenPipeError:
                left.append(True)

    writer = threading.Thread(target=write)
    writer.start()
    loaded = load([str(pipe)], root=tmp_path)
    writer.join()
    assert codes(loaded) == ["file-too-large"]
    assert left == [True]


def test_what_a_named_pipe_brings_is_a_manifest(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(volume("data"),))
    writer.start()
    loaded = load([str(pipe)], root=tmp_path)
    writer.join()
    assert [str(item.address) for item in loaded.resources] == ["Volume/shop/data"]


def test_the_settings_are_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "reconcile.yaml").write_text("manifests: [.]\n")
    (tmp_path / "sub" / "reconcile.yaml").write_text("manifests: [.]\n")
    (tmp_path / "a.yaml").write_text(volume("data"))
    monkeypatch.chdir(tmp_path)
    for given in (".", str(tmp_path)):
        loaded = load([given], root=tmp_path)
        assert loaded.files == ("a.yaml",)
        assert loaded.diagnostics == ()


def test_the_settings_named_as_a_manifest_are_refused(tmp_path: Path) -> None:
    (tmp_path / "reconcile.yaml").write_text("manifests: [.]\n")
    assert codes(load([str(tmp_path / "reconcile.yaml")], root=tmp_path)) == ["missing-field"]


def test_the_reporter_hears_how_many_files_were_read(load_files: LoadFiles) -> None:
    heard: list[int] = []

    class Listener(Reporter):
        def loading(self, files: int) -> None:
            heard.append(files)

    load_files({"a.yaml": volume("a"), "b.yaml": volume("b")}, reporter=Listener())
    assert heard == [2]
