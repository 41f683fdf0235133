"""One file or folder per kind: a module with a `KIND`, or a folder with one in its `kind.py`, is found here.

There is no list to edit.
"""

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from reconciler.kinds.base import Kind
from reconciler.kinds.manifest import ManifestKind

K = TypeVar("K", bound=ManifestKind)


@cache
def find_kinds() -> Mapping[str, Kind]:
    """Every kind of object by name, in order of name."""
    return declared_in(__name__, Kind)


def declared_in(package: str, base: type[K]) -> Mapping[str, K]:
    """The `KIND` of each module of `package` that has one, by name, in order of name."""
    kinds = [module.KIND for module in _modules(package) if isinstance(getattr(module, "KIND", None), base)]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def _modules(package: str) -> Iterator[ModuleType]:
    (folder,) = map(Path, importlib.import_module(package).__path__)
    for file in (*folder.glob("[!_]*.py"), *folder.glob("*/kind.py")):
        yield importlib.import_module(".".join((package, *file.relative_to(folder).with_suffix("").parts)))
