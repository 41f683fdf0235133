"""Positions of values and keys by their paths (`model.pack_span`). `merge` places what `<<` brings.

Every position is private, so that no report prints its line, until the loader knows that the document's kind
holds no secrets (`shown_spans`).
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reconciler.core.model import SHOWN, Path

MERGE: Any = object()  # stands for a plain `<<` among the keys of a mapping being built, and in their paths


class LaterSpans(Mapping[Path, int]):
    """Positions that are read when one is asked for."""

    @abstractmethod
    def shown(self) -> "LaterSpans":
        """Return the same positions, in a document without secrets: its lines may be shown."""


@lru_cache(maxsize=1 << 14)
def below(path: Path, part: Any) -> Path:
    """Return the path of `part` in the value at `path`: documents of one shape share their paths."""
    return (*path, part)


def shown_spans(spans: Mapping[Path, int]) -> Mapping[Path, int]:
    """Return `spans` as those of a document that holds no secrets."""
    if isinstance(spans, LaterSpans):
        return spans.shown()
    return {path: packed | SHOWN for path, packed in spans.items()}


def merge(
    mapping: dict[Any, Any], path: Path, spans: dict[Path, int], key_spans: dict[Path, int]
) -> int | None:
    """Replace `<<` in `mapping`, at `path`, by the merged keys. Its own keys win, then the first listed.

    Keys of a mapping written in place have their own positions, those of an alias have the alias's.
    Return the position of `<<` if something else than mappings was to be merged, or None.
    """
    sources, at = mapping.pop(MERGE), (*path, MERGE)
    listed = isinstance(sources, list)
    for number, source in enumerate(sources if listed else [sources]):
        if not isinstance(source, dict):
            return spans[at]
        origin = (*at, number) if listed else at
        for name, value in source.items():
            if name in mapping:
                continue
            mapping[name] = value
            if (*origin, name) in spans:
                _place_again({name: value}, origin, path, spans, key_spans)
            else:
                spans[*path, name] = key_spans[*path, name] = spans.get(origin, spans[at])
    return None


def _place_again(
    value: Any, origin: Path, path: Path, spans: dict[Path, int], key_spans: dict[Path, int]
) -> None:
    """Place all that `value` holds below `origin` a second time, below `path`."""
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        written, twin = (*origin, name), (*path, name)
        if written not in spans:
            return  # an alias brought it, and all beside it
        spans[twin] = spans[written]
        if written in key_spans:
            key_spans[twin] = key_spans[written]
        _place_again(value[name], written, twin, spans, key_spans)
