"""Manifests that several environments share, and what is said when drift of one is accepted into them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.diagnostics import Diagnostic, warning
from reconciler.core.model import Address, Path, Resource
from reconciler.drift.acceptance import Accepted
from reconciler.manifests.writing.write import scalar


class Environments(Struct, frozen=True):
    """`chosen`: the one whose drift it is, "" for none. `folder`: of all overlays, relative to the root."""

    chosen: str
    folder: str

    def shared(self, file: str) -> bool:
        """Whether the manifests in `file` are not those of the chosen environment alone."""
        return not (self.chosen and file.startswith(f"{self.folder}/{self.chosen}/"))


def patch(resource: Resource, path: Path, value: Any) -> str:
    """The entry of an overlay, on one line, that gives `value` at `path` to this resource alone."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else scalar(value)
    for part in reversed(path):
        text = f"{{{part}: {text}}}"
    return f"{resource.in_file}: {text}"


def shared_values(
    accepted: Sequence[Accepted], resources: Mapping[Address, Resource], environments: Environments
) -> Iterator[Diagnostic]:
    """A warning for each value that was written where it counts for other environments too."""
    own = f"{environments.folder}/{environments.chosen or 'NAME'}"
    alone = f"`{environments.chosen}`" if environments.chosen else "one environment"
    for each in accepted:
        if each.span is not None and environments.shared(each.span.file):
            before, after = scalar(each.before), scalar(each.after)
            entry = patch(resources[each.address], ("spec", each.path), each.after)
            yield warning(
                "shared-value",
                f"`{each.address}`: `{each.path}: {after}` now counts in every environment that "
                "does not patch it, with its next apply",
                each.span,
                help=f"to limit it to {alone}, write {before} here again, and `{entry}` into {own}",
            )
