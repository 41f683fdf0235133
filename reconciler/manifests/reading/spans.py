"""Positions of values and keys by their paths. `merge` places what `<<` brings.

Every position is private, so that no report prints its line, until the loader knows that the document's kind
holds no secrets (`ShownSpans`).
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from reconciler.core.diagnostics import Span
from reconciler.core.model import Path

MERGE: Any = object()  # stands for a plain `<<` among the keys of a mapping being built, and in their paths


class ShownSpans(Mapping[Path, Span]):
    """The positions in a document that holds no secrets: its lines may be shown."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Mapping[Path, Span]) -> None:
        self._spans = spans

    def __getitem__(self, path: Path) -> Span:
        return self._spans[path]._replace(private=False)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


@lru_cache(maxsize=1 << 14)
def below(path: Path, part: Any) -> Path:
    """Return the path of `part` in the value at `path`: documents of one shape share their paths."""
    return (*path, part)


def merge(
    mapping: dict[Any, Any], path: Path, spans: dict[Path, Span], key_spans: dict[Path, Span]
) -> Span | None:
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
    value: Any, origin: Path, path: Path, spans: dict[Path, Span], key_spans: dict[Path, Span]
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
