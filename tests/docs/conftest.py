"""The PostgreSQL server that the reference provider of docs/providers.md makes databases in."""

from tests.providers.postgres import postgres

__all__ = ["postgres"]
