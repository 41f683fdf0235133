"""A `reconcile state migrate` that is killed: its arguments are NUMBER and URL.

It dies at the NUMBERth step: before or after what it does to either state, and to the files of a new one.
"""

import os
import signal
import sys
from collections.abc import Callable
from inspect import iscoroutinefunction
from itertools import count
from typing import Any

from reconciler.cli.main import run
from reconciler.state.places.postgres.store import PostgresStore
from reconciler.state.places.sqlite import files
from reconciler.state.places.sqlite.store import SqliteStore

_steps = count(1)


def deadly(owner: Any, name: str, last: int) -> None:
    real: Callable[..., Any] = getattr(owner, name)

    def step() -> None:
        if next(_steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def call(*arguments: Any, **more: Any) -> Any:
        step()
        done = real(*arguments, **more)
        step()
        return done

    async def await_call(*arguments: Any, **more: Any) -> Any:
        step()
        done = await real(*arguments, **more)
        step()
        return done

    setattr(owner, name, await_call if iscoroutinefunction(real) else call)


def main() -> None:
    for owner, name in [
        (SqliteStore, "export"),
        (SqliteStore, "lease"),
        (SqliteStore, "import_"),
        (SqliteStore, "retire"),
        (SqliteStore, "revive"),
        (SqliteStore, "release"),
        (files, "create_state"),
        (PostgresStore, "export"),
        (PostgresStore, "import_"),
        (PostgresStore, "revive"),
    ]:
        deadly(owner, name, int(sys.argv[1]))
    sys.exit(run(["state", "migrate", sys.argv[2]]))
