from collections.abc import Iterator

import pytest

from tests.sandbox.platform import Platform


@pytest.fixture
def platform() -> Iterator[Platform]:
    platform = Platform()
    yield platform
    platform.sandbox.close()
