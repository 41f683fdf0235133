"""A shop on an emulated platform: what a newcomer tries, what documentation plays, and famous accidents."""
