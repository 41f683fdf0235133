"""Fuzzing: mutated manifests and mutated answers, each made from one number alone.

`python -m tests.reliability.fuzz --manifests 100000 --responses 50000 --jobs 2` runs both.
"""
