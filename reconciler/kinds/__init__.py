"""One file per kind. A module here with a `KIND` is found by `find_kinds`; there is no list to edit."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from reconciler.kinds.base import Kind


@cache
def find_kinds() -> Mapping[str, Kind]:
    """Every kind by name, in order of name."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    kinds: list[Kind] = [module.KIND for module in modules if hasattr(module, "KIND")]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}
