"""Canaries: values that may stand nowhere, put wherever secrets are, and looked for in all that is written.

`python -m tests.reliability.canary` runs the real program more than a hundred times.
"""
