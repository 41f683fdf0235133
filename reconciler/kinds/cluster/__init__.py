"""Postgres clusters: made or restored, waited for, and never changed in place."""
