"""One file or folder per kind. There is no list to edit.

A kind is found where a module here has a `KIND`, or where the `kind.py` of a folder has one.
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
    """Return every kind of object by name, in order of name."""
    return declared_in(__name__, Kind)


def declared_in(package: str, base: type[K]) -> Mapping[str, K]:
    """Return the `KIND` of every module of `package` that has one of class `base`, by name and sorted."""
    kinds = [module.KIND for module in _modules(package) if isinstance(getattr(module, "KIND", None), base)]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def _modules(package: str) -> Iterator[ModuleType]:
    (folder,) = map(Path, importlib.import_module(package).__path__)
    for file in (*folder.glob("[!_]*.py"), *folder.glob("*/kind.py")):
        yield importlib.import_module(".".join((package, *file.relative_to(folder).with_suffix("").parts)))
