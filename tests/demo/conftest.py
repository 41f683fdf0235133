"""A folder for demos."""

import pytest

from tests.demo.project import empty
from tests.inprocess import Command

__all__ = ["empty"]


@pytest.fixture
def reconcile(empty: Command) -> Command:
    return empty
