"""The PostgreSQL server of docs/providers.md, and what readers install."""

from tests.docs.installed import installed
from tests.providers.postgres import postgres

__all__ = ["installed", "postgres"]
