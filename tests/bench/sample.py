"""Every row of the benchmark once, over small worlds: `python -m tests.bench.sample FOLDER`, their table.

Without the peers, which are not installed everywhere: rows with one have only our half of it. Commands are
forked from this process, which has everything imported: most of a small plan is its imports.
"""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from bench import processes
from bench.figures import Figure, Group, measure
from bench.rows import groups
from bench.stage import RECONCILE, Stage
from bench.table import render
from tests.forking import become, finish, import_everything

_SCALE = 1 / 1000


@dataclass
class Forked:
    pid: int
    returncode: int | None = None


def start(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> Forked:
    """As `processes.start`, for modules of ours."""
    module, arguments = ("reconciler", command[1:]) if command[0] == RECONCILE else (command[2], command[3:])

    def work() -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        become(cwd, processes.environment(cwd, env), nothing, out.fileno(), err.fileno())
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    pid = os.fork()
    if not pid:
        finish(work)
    return Forked(pid)


def main() -> None:
    import_everything()
    processes.start = start
    with ExitStack() as stack:
        stage = Stage(Path(sys.argv[1]), stack)
        rows = [row for group in groups(_SCALE) for row in measure(_alone(group), stage)]
    sys.stdout.write(f"{render(rows)}\n")


def _alone(group: Group) -> Group:
    figures = [_without_peer(figure) for figure in group.figures]
    return replace(group, rounds=1, figures=figures)


def _without_peer(figure: Figure) -> Figure:
    return figure if figure.peer is None or figure.peer.ours else replace(figure, peer=None)


if __name__ == "__main__":
    main()
