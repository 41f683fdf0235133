"""The sandbox of the command line's tests."""

from tests.cli.conftest import _serving, sandbox, sandbox_db

__all__ = ["_serving", "sandbox", "sandbox_db"]
