"""One sandbox for all tests of the command line; each test has an app and a project of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.harness import Project, Sandbox, environment, serving, volume
from tests.state.doubles import make_state

_numbers = count(1)


@pytest.fixture(scope="session")
def sandbox_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("platform") / "sandbox.db"


@pytest.fixture(scope="session")
def _serving(sandbox_db: Path) -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--db", str(sandbox_db)) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def _standing_still() -> Iterator[Sandbox]:
    with serving("--clock", "manual") as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(_serving: Sandbox) -> Iterator[Sandbox]:
    """A platform whose clock runs 600 times faster."""
    yield _serving
    _serving.clear_faults()


@pytest.fixture
def still(_standing_still: Sandbox) -> Iterator[Sandbox]:
    """A platform whose clock stands still until a test moves it."""
    yield _standing_still
    _standing_still.clear_faults()


@pytest.fixture(scope="module")
def extended() -> Iterator[Sandbox]:
    """A platform with the endpoints that the API document does not show."""
    with serving("--clock", "x600", "--profile", "extended") as sandbox:
        yield sandbox


@pytest.fixture
def extended_project(extended: Sandbox, tmp_path: Path) -> Iterator[Project]:
    """A project that says which of those endpoints there are."""
    project = project_at(tmp_path, extended.url)
    project.env["RECONCILE_CAPABILITIES"] = "extended"
    yield project
    extended.clear_faults()
    extended.switch(cluster_outcome="ready")


@pytest.fixture
def app(sandbox: Sandbox) -> str:
    return sandbox.app(f"shop{next(_numbers)}")


@pytest.fixture
def project(sandbox: Sandbox, tmp_path: Path) -> Project:
    """A project on `sandbox`, with a manifest directory and no manifest yet."""
    return project_at(tmp_path, sandbox.url)


@pytest.fixture
def still_project(still: Sandbox, tmp_path: Path) -> Project:
    return project_at(tmp_path, still.url)


@pytest.fixture
def applied(project: Project, app: str) -> Project:
    """A project whose only volume was applied."""
    project.write(volume(app))
    project.apply()
    return project


def project_at(root: Path, url: str) -> Project:
    (root / "manifests").mkdir(parents=True)
    (root / "reconcile.yaml").write_text("manifests: [manifests]\n", encoding="utf-8")
    make_state(root)
    return Project(root, environment(url))
