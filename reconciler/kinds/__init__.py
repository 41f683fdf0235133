"""One file or folder per kind: a module with a `KIND`, or a folder with one in its `kind.py`, is found here.

There is no list to edit. `policies/` is searched as well.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

from reconciler.kinds.base import Kind

_FOLDERS = ("reconciler.kinds", "reconciler.policies")


@cache
def find_kinds() -> Mapping[str, Kind]:
    """Every kind by name, in order of name."""
    kinds: list[Kind] = [module.KIND for module in _modules() if hasattr(module, "KIND")]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def _modules() -> Iterator[ModuleType]:
    for folder in _FOLDERS:
        for info in pkgutil.iter_modules(importlib.import_module(folder).__path__, f"{folder}."):
            yield importlib.import_module(f"{info.name}.kind" if info.ispkg else info.name)
