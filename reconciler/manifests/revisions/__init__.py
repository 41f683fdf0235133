"""Manifests as git has them, and what changed since."""
