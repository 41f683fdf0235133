from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.approvals.people import Person, make
from tests.execution.stage import Stage


@pytest.fixture(scope="package")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="package")
def ana(keys: Path) -> Person:
    return make(keys, "ana@example.com")


@pytest.fixture(scope="package")
def bob(keys: Path) -> Person:
    return make(keys, "bob@example.com")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()
