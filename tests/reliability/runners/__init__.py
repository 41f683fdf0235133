"""Throw-away runners of a team on one shared state: real processes that die, stand still, and lose the store.

`python -m tests.reliability.runners --state s3:` plays rounds and prints what was counted. In each round
three runners apply the same manifests at once, each from a new folder with a new HOME, and with a line of its
own to the store.
"""
