from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.execution.far import SharedTime
from tests.execution.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, SharedTime())
    yield stage
    await stage.close()
