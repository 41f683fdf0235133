"""Effective manifests as YAML text: what they say with overlays laid over them."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from reconciler.manifests.load import Effective

_ONE_LINE = 1 << 20  # columns: a long text keeps its line


def build(manifests: Sequence[Effective]) -> str:
    """One document each, in their order, below a comment that names the files it comes from."""
    return "".join(f"---\n# from {_names(each.files)}\n{_write(each.value)}" for each in manifests)


def _names(files: Sequence[str]) -> str:
    """A name with a line break would end the comment."""
    return ", ".join(name if name.isprintable() else ascii(name) for name in files)


def _write(value: Mapping[str, Any]) -> str:
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE, default_flow_style=False
    )


class _Dumper(yaml.SafeDumper):
    """What an alias brought is written out at each place."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
