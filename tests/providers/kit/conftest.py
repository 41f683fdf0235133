"""The servers that these tests share."""

from tests.providers.postgres import postgres
from tests.providers.serve import provider

__all__ = ["postgres", "provider"]
