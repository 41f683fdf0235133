"""The scene of executions, which rehearsals play in, too."""

from tests.execution.conftest import stage

__all__ = ["stage"]
