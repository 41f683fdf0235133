"""A large plan that two processes make is the one that one process makes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bench.stage import Project, Stage
from bench.worlds.manifests import file_of
from bench.worlds.world import World

CORES = sorted(os.sched_getaffinity(0))
RUN = """
import os, sys
from reconciler.cli.main import run
from reconciler.services import beside

def noted(work, forked=beside.forked):
    print("forked", file=sys.stderr)
    return forked(work)

beside.forked = noted
os.sched_setaffinity(0, [int(core) for core in sys.argv.pop(1).split(",")])
sys.exit(run(sys.argv[1:]))
"""
REMOVED = range(3, 300, 50)  # apps
WORLD = World(apps=300, volumes=2, clusters=3, recorded=2, live=2)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with ExitStack() as stack:
        made = Stage(tmp_path_factory.mktemp("two") / "stage", stack).recorded(WORLD)
        manifests = made.root / "manifests"
        for app in range(0, 300, 7):
            file = manifests / file_of(WORLD, app, 0)
            file.write_text(file.read_text().replace("size_gb: ", "size_gb: 9", 1))
        for app in REMOVED:
            (manifests / file_of(WORLD, app, 0)).unlink()
        for app in range(5, 300, 50):
            file = manifests / file_of(WORLD, app, 0)
            first = file.read_text().split("---\n")[0]
            file.write_text(f"{file.read_text()}---\n{first.replace('name: ', 'name: new-', 1)}")
        yield made


def plan(project: Project, *cores: int) -> tuple[dict[str, Any], bool]:
    """The plan, and whether there was a second process."""
    words = [",".join(map(str, cores)), "plan", "--output", "json"]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *words],
        cwd=project.root,
        env={**os.environ, **project.variables},
        capture_output=True,
        text=True,
    )
    found = json.loads(ran.stdout)
    for name in ("id", "context"):
        found.pop(name, None)
    return found, "forked" in ran.stderr.splitlines()


@pytest.mark.skipif(len(CORES) < 2, reason="with one core there is never a second process")
def test_two_processes_plan_what_one_does(project: Project) -> None:
    one, was_forked = plan(project, CORES[0])
    assert not was_forked
    project.calls()
    two, was_forked = plan(project, *CORES[:2])
    assert was_forked
    assert two == one
    assert len(one["changes"]) > 50
    assert project.calls() == WORLD.calls - len(REMOVED)
