"""Golden texts name no list of all kinds: a new kind would change them."""

from reconciler.policies import find_manifest_kinds

_PLACE = "{every kind}"


def with_kinds(golden: str) -> str:
    """`golden` with the names of all kinds where it says so."""
    return golden.replace(_PLACE, ", ".join(find_manifest_kinds()))


def without_kinds(text: str) -> str:
    """As it stands in a golden text."""
    return text.replace(", ".join(find_manifest_kinds()), _PLACE)
