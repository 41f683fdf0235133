"""The PostgreSQL server that tests of several processes share."""

from tests.providers.postgres import postgres

__all__ = ["postgres"]
