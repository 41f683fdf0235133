"""A shop with an extension, whose provider serves: as tests of provisioning have it."""

from tests.providers.provisioning.conftest import _sandbox, applied, provider, scene

__all__ = ["_sandbox", "applied", "provider", "scene"]
