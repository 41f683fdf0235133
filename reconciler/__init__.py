"""Declarative reconciler for Postgres clusters, volumes, snapshots and secrets."""
