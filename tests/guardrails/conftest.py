"""A stage, and people who sign."""

from tests.approvals.conftest import ana, bob, keys
from tests.demo.project import empty, shop
from tests.execution.conftest import stage

__all__ = ["ana", "bob", "empty", "keys", "shop", "stage"]
