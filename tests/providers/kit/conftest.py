"""The servers that these tests share, and the store of a provider of their own."""

from pathlib import Path

import pytest

from tests.providers.postgres import postgres
from tests.providers.serve import provider

__all__ = ["postgres", "provider"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "provider.db"
