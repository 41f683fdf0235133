"""Whole applies in one process, on simulated time, under a seeded schedule of all that can go wrong.

A `Scenario` is data, drawn from a seed: manifests, people's edits, faults, crashes, rivals. A history
carries it out against the sandbox's core and keeps, beside the product, a `Ghost`: what truly
happened. After every event, `invariants` compares the two.
"""
