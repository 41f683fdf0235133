"""The PostgreSQL server that tests of several processes share."""

from tests.extensions.postgres import postgres

__all__ = ["postgres"]
