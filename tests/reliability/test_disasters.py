"""Each disaster, as real processes, over each place of a state."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.harness import Sandbox, serving
from tests.reliability.disasters.places import FILE, POSTGRESQL, S3, Places, places
from tests.reliability.disasters.scenes import OF_A_PLACE, SCENES, Stage

_numbers = count(1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--profile", "extended") as found:
        yield found


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> Iterator[Places]:
    with places(request.param) as found:
        yield found


@pytest.mark.parametrize(
    ("made", "name"),
    [
        *((FILE, name) for name in SCENES),
        # What may differ between places; `python -m tests.reliability.disasters` plays all over each.
        *((place, name) for place in (POSTGRESQL, S3) for name in OF_A_PLACE),
    ],
    indirect=["made"],
)
def test_a_disaster_ends_as_it_must(name: str, made: Places, sandbox: Sandbox, tmp_path: Path) -> None:
    try:
        SCENES[name](Stage(sandbox, made, tmp_path, sandbox.app(f"shop{next(_numbers)}")))
    finally:
        sandbox.clear_faults()
