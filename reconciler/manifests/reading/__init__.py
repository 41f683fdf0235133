"""Bytes to documents: text, YAML, positions, and what is wrong with them."""
