"""Where the states are kept that are measured: a file, PostgreSQL, and an object store some way off."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.objects import BUCKET
from bench.processes import RECONCILE, run, serving
from reconciler.core.state_url import DEFAULT_URL
from tests.providers.postgres import running_postgres

REPOSITORY = Path(__file__).parents[1]
_POSTGRES = ("shared_buffers=64MB", "max_connections=50")
_AWAY_S = 0.030  # how far away the object store is


@dataclass(frozen=True)
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


@dataclass
class Project:
    """A folder with manifests, the platform it talks to, and a state at `place`.

    `state`: what the state is called there; "": as the folder.
    """

    root: Path
    place: Place
    platform: str
    state: str = ""

    @property
    def url(self) -> str:
        return self.place.url.format(self.state or self.root.name) or DEFAULT_URL

    def run(self, *words: str, expect: str = "") -> float:
        """Seconds."""
        platform = {"RECONCILE_BASE_URL": self.platform, "RECONCILE_TOKEN": "sandbox"}
        env = {**self.place.variables, **platform, "RECONCILE_STATE": self.url}
        return run([*RECONCILE, *words], self.root, env, expect=expect).wall_s


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
            Place("file"),
            Place(
                "PostgreSQL",
                server.url.rpartition("/")[0] + "/{}",
                prepare=lambda name: server.rows(f'CREATE DATABASE "{name}"'),
                most_apply=1.5,
                most_plan=1.2,
            ),
            Place("objects, 30 ms", f"s3://{BUCKET}/{{}}", variables, most_apply=3.0, most_plan=1.5),
        ]
