"""A stage for each test, and people who sign."""

from tests.approvals.conftest import ana, bob, keys
from tests.execution.conftest import stage

__all__ = ["ana", "bob", "keys", "stage"]
