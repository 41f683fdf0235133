"""Effective manifests as YAML text: what they say with overlays laid over them."""

from collections.abc import Sequence

from reconciler.manifests.validation.loader import Effective
from reconciler.manifests.writing.write import Commented, write


def build(manifests: Sequence[Effective]) -> str:
    """One document each, in their order, below a comment that names the files it comes from.

    What an alias brought is written out at each place.
    """
    documents = [Commented(each.value, {(): [f"from {', '.join(each.files)}"]}) for each in manifests]
    return write(documents, follows=True)
