"""Signature vectors: requests with the verdict that the documents demand, made from a seed.

The signer is the tests' own: nothing here that makes a vector imports `reconciler`.
"""

from random import Random

from tests.providers.vectors import addresses, bodies, queries, replays, signatures, times, webhooks
from tests.providers.vectors.scene import CASES, COSTLY, draw_scene
from tests.providers.vectors.vector import Vector

FAMILIES = (addresses, bodies, queries, replays, signatures, times, webhooks)  # importing fills the table
COSTLY_ROUNDS = 4


def vectors(seed: int, count: int) -> list[Vector]:
    """`count` vectors: every case in turn, each time in another scene. The same seed gives the same."""
    made: list[Vector] = []
    rounds = 0
    while len(made) < count:
        for name, play in CASES.items():
            if len(made) == count:
                break
            if name in COSTLY and rounds >= COSTLY_ROUNDS:
                continue
            # A random of its own for each: a new case changes none of the others.
            made.append(play(draw_scene(Random(f"{seed} {name} {rounds}"))))
        rounds += 1
    return made
