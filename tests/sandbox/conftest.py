from collections.abc import Iterator

import pytest

from tests.sandbox.platform import Platform


@pytest.fixture
def platform() -> Iterator[Platform]:
    with Platform() as platform:
        yield platform
