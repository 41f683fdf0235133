"""How many generated examples a property plays."""

from hypothesis import settings


def times(factor: float) -> settings:
    """Return settings that play `factor` times the examples of the profile.

    The quick tier's profile has 10 examples, that of all tests 100.
    """
    return settings(max_examples=max(1, round(settings().max_examples * factor)))
