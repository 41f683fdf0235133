"""How the whole suite runs: side by side, and in memory."""

import os
import shutil
import signal
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from tests.inprocess import Command

_MINUTES = ("tests/reliability/", "tests/docs/", "tests/test_extras.py")
_MEMORY = Path("/dev/shm")
_HOMES = pytest.StashKey[Path]()
_ENOUGH_BYTES = 1 << 30  # a whole run leaves some 200 MB, much of it PostgreSQL's

settings.register_profile("whole", deadline=None)  # a busy machine is not a failure
settings.register_profile("quick", deadline=None, max_examples=10)


@pytest.fixture
def anyio_backend() -> str:
    """The loop of all asynchronous tests, which pytest knows without a mark (`anyio_mode`)."""
    return "asyncio"


@pytest.fixture
def reconcile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`reconcile` in this process and in an empty project."""
    return Command(tmp_path, monkeypatch, capsys)


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files in memory, restore signals, and choose how many examples properties play.

    Every case syncs files, and a disk makes it wait. `nohup` and `&` start pytest with signals ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    writable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    if "TMPDIR" not in os.environ and writable and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # pytest has asked for it already
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):  # else each apply asks for the base of this very change
        os.environ.pop(name, None)
    config.stash[_HOMES] = Path(tempfile.mkdtemp(prefix="state-homes-"))
    settings.load_profile("quick" if _is_quick(config) else "whole")


def _is_quick(config: pytest.Config) -> bool:
    """Return whether pytest was given no path: then it runs the quick tier."""
    return bool(config.args == config.getini("testpaths"))


_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test a home of its own, so that no test sees another test's marks of states.

    The environment of this process carries it to real processes and to fixtures of a whole session.
    """
    homes = item.config.stash[_HOMES]
    os.environ["XDG_STATE_HOME"] = str(homes / str(next(_numbers)))


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_HOMES], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out of the quick tier, and start with the tests that take minutes.

    A minute-long test that starts last would keep one processor alone busy at the end.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(_MINUTES))
    if not _is_quick(config):
        return
    slow = [item for item in items if "slow" in item.keywords]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if "slow" not in item.keywords]


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for single files and tests, where starting them costs more than it saves.

    Outside of the quick tier one more than processors: a quarter of the time, tests wait for what sleeps.
    """
    if all(".py" in argument for argument in config.args):
        return 0
    return None if _is_quick(config) else len(os.sched_getaffinity(0)) + 1
