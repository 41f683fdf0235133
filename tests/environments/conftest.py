from collections.abc import Iterator

import pytest

from tests.cli.harness import Sandbox, serving


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600", "--profile", "extended") as sandbox:
        yield sandbox
