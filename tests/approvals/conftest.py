from pathlib import Path

import pytest

from tests.approvals.people import Person, make
from tests.execution.conftest import stage

__all__ = ["stage"]


@pytest.fixture(scope="package")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="package")
def ana(keys: Path) -> Person:
    return make(keys, "ana@example.com")


@pytest.fixture(scope="package")
def bob(keys: Path) -> Person:
    return make(keys, "bob@example.com")
