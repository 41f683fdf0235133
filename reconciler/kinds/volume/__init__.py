"""Volumes: sizes that only grow, copies of other volumes, and the snapshots before what may lose data."""
