"""Where the states are kept that are measured: a file, PostgreSQL, and an object store some way off."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.byte_code import compile_all
from bench.objects import BUCKET
from bench.processes import CouldNotRun, serving
from bench.stage import REPOSITORY, Project, Stage
from bench.table import Row, render
from reconciler.core.state_url import DEFAULT_URL
from tests.providers.postgres import running_postgres

_POSTGRES = ("shared_buffers=64MB", "max_connections=50")
_AWAY_S = 0.030  # how far away the object store is


@dataclass(frozen=True, eq=False)
class Place:
    """Where states are kept. `url`: with {} for the name of a project; "" for a file in it.

    `prepare(name)` makes room for one. `most_apply`, `most_plan`: what they may take, against the file.
    """

    name: str
    url: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[str], object] = lambda name: None
    most_apply: float = 1.0
    most_plan: float = 1.0

    def project(self, stage: Stage, root: Path, platform: str, state: str = "") -> Project:
        """A project whose state is here. `state`: what it is called here; "": as the folder."""
        url = self.url.format(state or root.name) or DEFAULT_URL
        return stage.project(root, platform, "sandbox", **self.variables, RECONCILE_STATE=url)


FILE = Place("file")


@contextmanager
def places() -> Iterator[list[Place]]:
    """A file, PostgreSQL that waits for its disk as the file does, and an object store some way off."""
    far = [sys.executable, "-m", "bench.objects", str(_AWAY_S)]
    with running_postgres(_POSTGRES) as server, serving(far, REPOSITORY) as objects:
        variables = {
            "AWS_ENDPOINT_URL": objects,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        yield [
            FILE,
            Place(
                "PostgreSQL",
                server.url.rpartition("/")[0] + "/{}",
                prepare=lambda name: server.rows(f'CREATE DATABASE "{name}"'),
                most_apply=1.5,
                most_plan=1.2,
            ),
            Place("objects, 30 ms", f"s3://{BUCKET}/{{}}", variables, most_apply=3.0, most_plan=1.5),
        ]


def main(name: str, what: str, rows: Callable[[Stage, Sequence[Place], bool], list[Row]]) -> int:
    """Print the table of `rows` (of a stage, the places, and whether few and small ones are wanted).

    0 whatever the figures say: a benchmark is no test. 1 when something could not be run.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=what)
    parser.add_argument("--quick", action="store_true", help="small sizes, and fewer runs")
    quick = parser.parse_args().quick
    print(compile_all())
    try:
        with (
            tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder,
            places() as kept,
            ExitStack() as stack,
        ):
            table = render(rows(Stage(Path(folder), stack), kept, quick))
    except CouldNotRun as problem:
        print(f"could not run: {problem}", file=sys.stderr)
        return 1
    print(table)
    return 0
