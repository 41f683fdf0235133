"""Secrets of an app: a value from one source, sent and never read back."""
