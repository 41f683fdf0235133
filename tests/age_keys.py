"""Identities of age, and their recipients."""

from pyrage import x25519


def generate() -> tuple[str, str]:
    """A new identity, which is secret, and its recipient, which is public."""
    identity = x25519.Identity.generate()
    return str(identity), str(identity.to_public())
