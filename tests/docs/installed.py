"""What a reader installs: the wheel with the extras that a page names, in an environment of its own."""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.ci import quick
from tests.docs.pages import ROOT

_EXTRAS = re.compile(r"reconciler\\?\[([a-z, ]+)\\?\]")
_UV = Path(sys.executable).with_name("uv")


def extras_of(page: Path) -> frozenset[str]:
    """The extras that the page names."""
    named = _EXTRAS.findall(page.read_text(encoding="utf-8"))
    return frozenset(extra.strip() for extras in named for extra in extras.split(","))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """The folders of the programs, by extras. All workers share the environments; nothing is downloaded.

    With `warm`, `reconcile` is forked from a warm process of the environment, one at a time; else it starts
    cold.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    shared = shared / "installed"
    shared.mkdir(exist_ok=True)
    stack = ExitStack()

    @cache
    def programs(extras: frozenset[str], *, warm: bool = False) -> str:
        name = "-".join(sorted(extras)) or "core"
        with (shared / f"{name}.lock").open("w") as lock, (shared / "wheel.lock").open("w") as wheel_lock:
            fcntl.flock(wheel_lock, fcntl.LOCK_EX)
            if not list(shared.glob("*.whl")):
                _uv("build", "--wheel", "--out-dir", str(shared), cwd=ROOT)
            fcntl.flock(wheel_lock, fcntl.LOCK_UN)
            fcntl.flock(lock, fcntl.LOCK_EX)
            environment = shared / name
            if not (environment / "bin/reconcile").exists():
                (wheel,) = shared.glob("*.whl")
                wanted = [word for extra in sorted(extras) for word in ("--extra", extra)]
                only = ("--locked", "--no-dev", "--no-install-project", "--python", sys.executable)
                _uv("sync", *only, *wanted, cwd=ROOT, into=environment)
                python = ("--python", str(environment), "--no-deps", "--compile-bytecode")
                _uv("pip", "install", *python, str(wheel), cwd=shared)
        if not warm:
            return str(environment / "bin")
        tools = tmp_path_factory.mktemp("tools")
        stack.enter_context(quick.installed(tools, environment / "bin/python"))
        return f"{tools}{os.pathsep}{environment / 'bin'}"

    with stack:
        yield programs


def _uv(*words: str, cwd: Path, into: Path | None = None) -> None:
    """uv, without a network: what `uv sync` took is in its cache. `into`: the environment of a sync."""
    environment = {**os.environ, "UV_OFFLINE": "1"}
    if into is not None:
        environment["UV_PROJECT_ENVIRONMENT"] = str(into)
    done = subprocess.run(
        [_UV, *words, "--quiet"], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
