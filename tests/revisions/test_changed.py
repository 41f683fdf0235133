"""`--changed-since`: what the working tree, also uncommitted, changes since it left a branch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.revisions.revision import Revision
from tests.inprocess import Command, secret, volume
from tests.revisions.repository import commit, git


def differing(reconcile: Command, options: str = "--changed-since main") -> tuple[list[str], list[str]]:
    """The addresses that differ, and those that depend on them."""
    told = json.loads(reconcile(f"validate {options} -o json").out)
    return told["changed"], told["dependants"]


def branch(reconcile: Command) -> None:
    git(reconcile.root, "checkout", "-q", "-b", "work")


def test_only_what_means_something_else_has_changed(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write(
        "manifests/data.yaml", "# a comment\n" + volume().replace("{region: ams, ", "\n  {region: ams,\n   ")
    )
    assert differing(reconcile) == ([], [])
    reconcile.write("manifests/data.yaml", volume(size_gb=11))
    assert differing(reconcile) == (["Volume/shop/data"], [])


def test_a_default_that_is_written_is_managed_and_so_a_change(reconcile: Command) -> None:
    provider = (
        "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: acme}\n"
        "spec: {base_url: 'https://acme.example', signing_secret_from: {env: KEY}%s}\n"
    )
    reconcile.write("manifests/acme.yaml", provider % "")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/acme.yaml", provider % ", signature_encoding: hex")
    assert differing(reconcile) == (["ExtensionProvider/acme"], [])


def test_committed_uncommitted_untracked_and_deleted_files_count(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume(size_gb=11))
    commit(reconcile.root)
    reconcile.write("manifests/new.yaml", volume("new"))
    (reconcile.root / "manifests/logs.yaml").unlink()
    assert differing(reconcile)[0] == ["Volume/shop/data", "Volume/shop/logs", "Volume/shop/new"]


def test_a_renamed_file_changes_nothing(reconcile: Command) -> None:
    branch(reconcile)
    (reconcile.root / "manifests/logs.yaml").rename(reconcile.root / "manifests/zürich ☃.yaml")
    commit(reconcile.root)
    assert differing(reconcile) == ([], [])


def test_what_came_to_the_branch_since_is_not_compared_with(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume(size_gb=11))
    commit(reconcile.root)
    git(reconcile.root, "checkout", "-q", "main")
    reconcile.write("manifests/logs.yaml", volume("logs", size_gb=6))
    commit(reconcile.root)
    git(reconcile.root, "checkout", "-q", "work")
    assert differing(reconcile) == (["Volume/shop/data"], [])
    assert differing(reconcile, "--changed-since main --ref work") == (["Volume/shop/data"], [])
    git(reconcile.root, "checkout", "-q", "main")
    assert differing(reconcile, "--changed-since main --ref work") == (["Volume/shop/data"], [])


def test_dependants_come_along_transitively(reconcile: Command) -> None:
    reconcile.write("manifests/copy.yaml", volume("copy", more=", from: {volume: data}"))
    reconcile.write("manifests/url.yaml", secret("URL", 'template: "x-${Volume/shop/copy:id}"'))
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume(size_gb=9))
    assert differing(reconcile) == (["Volume/shop/data"], ["Secret/shop/URL", "Volume/shop/copy"])
    built = reconcile("build --changed-since main").out
    assert [line for line in built.splitlines() if "name: " in line] == [
        "  name: copy",
        "  name: data",
        "  name: URL",
    ]


def test_a_policy_and_an_overlay_change_what_they_change(reconcile: Command) -> None:
    policy = (
        "apiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
        "spec: {selector: {}, snapshot_retention: %d}\n"
    )
    reconcile.write("manifests/policy.yaml", policy % 7)
    reconcile.write("manifests/data.yaml", volume(more=", snapshot_retention: 14"))
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/logs: {spec: {size_gb: 50}}\n")
    commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/policy.yaml", policy % 8)
    assert differing(reconcile)[0] == ["RetentionPolicy/all", "Volume/shop/logs"]
    git(reconcile.root, "checkout", "-q", ".")
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/logs: {spec: {size_gb: 51}}\n")
    assert differing(reconcile, "--changed-since main --env base") == ([], [])
    assert differing(reconcile, "--changed-since main --env prod") == (["Volume/shop/logs"], [])


def test_all_of_a_new_environment_or_folder_is_new(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    both = ["Volume/shop/data", "Volume/shop/logs"]
    assert differing(reconcile, "--changed-since main --env prod") == (both, [])
    assert differing(reconcile, "--changed-since main --env base") == ([], [])
    (reconcile.root / "manifests").rename(reconcile.root / "elsewhere")
    assert differing(reconcile, "--changed-since main elsewhere") == (both, [])


def test_a_larger_count_changes_only_the_new_ones(reconcile: Command) -> None:
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume(more=", count: 1"))
    commit(reconcile.root)
    reconcile.write("manifests/data.yaml", volume(more=", count: 2"))
    changed, _ = differing(reconcile, "--changed-since HEAD")
    assert "Volume/shop/data[1]" in changed
    assert "Volume/shop/logs" not in changed


def test_what_cannot_be_read_at_the_base_counts_as_changed_and_is_told_of(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume().replace("10", "ten"))
    base = commit(reconcile.root)
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume())
    assert differing(reconcile) == (["Volume/shop/data"], [])
    told = reconcile("validate --changed-since main").err
    assert (
        f"warning[base-has-errors]: the manifests at {base[:12]}, where this left main, have errors" in told
    )


def test_a_shallow_clone_is_told_what_to_fetch(reconcile: Command, tmp_path: Path) -> None:
    branch(reconcile)
    commit(reconcile.root, "one")
    commit(reconcile.root, "two")
    git(reconcile.root, "checkout", "-q", "main")
    commit(reconcile.root, "on main")
    source = f"file://{reconcile.root}"
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", "--branch", "work", source, "shallow")
    told = reconcile("validate --changed-since origin/main", code=1, cwd="../shallow").err
    assert "have no commit in common" in told
    assert "fetch-depth: 0" in told
    git(tmp_path, "clone", "-q", "--depth", "1", "--branch", "work", source, "shallower")
    told = reconcile("validate --changed-since origin/main", code=1, cwd="../shallower").err
    assert "fetch-depth: 0" in told
    assert reconcile("validate --ref HEAD", cwd="../shallower").code == 0


def test_branches_without_a_common_commit_are_told_of(reconcile: Command) -> None:
    git(reconcile.root, "checkout", "-q", "--orphan", "alone")
    commit(reconcile.root, "from nothing")
    told = reconcile("validate --changed-since main", code=1).err
    assert "have no commit in common" in told
    assert "name a revision that this branch comes from" in told


def test_what_is_as_before_is_neither_read_from_git_nor_composed_again(
    reconcile: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[bytes] = []
    asked: list[str] = []
    of_git = Revision._read

    def noted(data: bytes) -> list[Any] | None:
        composed.append(data)
        return line_values(data)

    def read(self: Revision, ids: Sequence[str]) -> list[bytes]:
        asked.extend(ids)
        return of_git(self, ids)

    monkeypatch.setattr("reconciler.manifests.reading.lines.line_values", noted)
    monkeypatch.setattr(Revision, "_read", read)
    branch(reconcile)
    reconcile.write("manifests/data.yaml", volume(size_gb=11))
    assert differing(reconcile) == (["Volume/shop/data"], [])
    assert sorted(composed) == [
        each.encode() for each in (volume(), volume(size_gb=11), volume("logs", size_gb=5))
    ]
    assert asked == [git(reconcile.root, "rev-parse", "main:manifests/data.yaml")]
