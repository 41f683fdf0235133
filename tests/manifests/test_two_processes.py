"""Two processes read as one does, whatever stands in the files."""

import os
from pathlib import Path

import pytest

from reconciler.manifests import load as module
from reconciler.manifests.load import Loaded, load
from reconciler.manifests.parallel import in_second_process

GOOD = (
    "{{apiVersion: reconciler/v1, kind: Volume, "
    "metadata: {{name: {name}, app: shop}}, spec: {{size_gb: 3}}}}\n"
)


def both_ways(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Loaded, Loaded]:
    asked: list[bool] = []

    def yes() -> bool:
        asked.append(True)
        return True

    monkeypatch.setattr(module, "can_fork", yes)
    monkeypatch.setattr(module, "BYTES_FOR_TWO", 2)
    two = load(["."], root=folder)
    assert asked
    monkeypatch.setattr(module, "can_fork", lambda: False)
    return load(["."], root=folder), two


@pytest.mark.parametrize(
    "last",
    [
        GOOD.format(name="d"),
        GOOD.format(name="a"),  # declared in the other half, too
        GOOD.format(name="d").replace("size_gb", "sise_gb"),
        "[",
        GOOD.format(name="d").replace("size_gb: 3", "from: {volume: a}"),
        GOOD.format(name="d").replace("size_gb: 3", "count: 3"),
    ],
    ids=["valid", "duplicate", "invalid", "unreadable", "refers to the other half", "count"],
)
def test_the_result_is_that_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text(GOOD.format(name=name))
    (tmp_path / "d.yaml").write_text(last)
    one, two = both_ways(tmp_path, monkeypatch)
    assert two == one
    assert two.files == ("a.yaml", "b.yaml", "c.yaml", "d.yaml")
    assert two.resources[-1].span("metadata", "name") == one.resources[-1].span("metadata", "name")


def test_work_that_the_second_process_did_not_bring_home_is_done_here() -> None:
    here = os.getpid()

    def work() -> int:
        if os.getpid() != here:
            os._exit(1)
        return 7

    assert in_second_process(work)() == 7


def test_work_is_done_by_another_process() -> None:
    assert in_second_process(os.getpid)() != os.getpid()
