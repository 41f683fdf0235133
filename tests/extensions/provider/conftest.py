"""The servers that these tests share."""

from tests.extensions.postgres import postgres
from tests.extensions.serve import provider

__all__ = ["postgres", "provider"]
