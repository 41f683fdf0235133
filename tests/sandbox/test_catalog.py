"""Parts are found in their folder."""

from reconciler.sandbox.catalog import KINDS
from reconciler.sandbox.world import Thing


def test_every_class_of_things_is_stored() -> None:
    assert set(KINDS.values()) == set(Thing.__subclasses__())
