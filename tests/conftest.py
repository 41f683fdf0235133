"""How the whole suite runs: side by side, and in memory."""

import os
import shutil
import signal
import sys
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

_MINUTES = ("tests/reliability/", "tests/docs/", "tests/test_extras.py")
_MEMORY = Path("/dev/shm")
_HOMES = pytest.StashKey[Path]()
_ENOUGH_BYTES = 1 << 30  # a whole run leaves some 200 MB, much of it PostgreSQL's

settings.register_profile("untimed", deadline=None)  # a busy machine is not a failure
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary files go where syncing is free: every case syncs some, and a disk makes it wait.

    And signals have their effect, also where whoever started this ignores them (`nohup`, a job behind `&`).
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


_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test is a user of its own, whose marks of states nobody else has: not even other tests.

    In the environment of this process, so that real processes and fixtures of a whole session have it, too.
    """
    homes = item.config.stash[_HOMES]
    os.environ["XDG_STATE_HOME"] = str(homes / str(next(_numbers)))


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_HOMES], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The quick tier leaves out what is slow in its folders. Whoever names a path gets all that is there.

    What takes minutes comes first: begun last, it would keep one processor alone busy in the end.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(_MINUTES))
    if config.args != config.getini("testpaths"):
        return
    slow = [item for item in items if "slow" in item.keywords]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if "slow" not in item.keywords]


def pytest_collection_finish() -> None:
    """Generated examples take as long as they take: a busy machine is no failure."""
    if "hypothesis" in sys.modules:  # importing it costs what a hundred tests do
        from hypothesis import settings

        settings.register_profile("untimed", deadline=None)
        settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for single files and tests, where starting them costs more than it saves."""
    return 0 if all(".py" in argument for argument in config.args) else None
