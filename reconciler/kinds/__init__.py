"""One file or folder per kind: a module with a `KIND`, or a folder with one in its `kind.py`, is found here.

There is no list to edit.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
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
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        yield importlib.import_module(f"{info.name}.kind" if info.ispkg else info.name)
