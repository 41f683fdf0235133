"""One document under merge patches (RFC 7386), with the position of each value wherever it was written."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.model import Path
from reconciler.manifests.overlays.written import Written
from reconciler.manifests.reading.compose import Document


class Merged:
    """A document being patched; the original, and the patches, stay as they are."""

    def __init__(self, original: Document) -> None:
        self._value = original.value
        self._spans = original.spans
        self._key_spans = original.key_spans
        self._surprises = dict(original.surprises)
        self._elsewhere = dict(original.elsewhere)
        self._keys_elsewhere = dict(original.keys_elsewhere)

    def patch(self, change: Mapping[str, Any], source: Path, overlay: Written) -> list[Path]:
        """Merge `change`, which stands at `source` of `overlay`; the paths (in `change`) that it removed."""
        removed: list[Path] = []
        self._value = self._merge(self._value, change, (), source, overlay, removed)
        return removed

    def document(self) -> Document:
        return Document(
            self._value,
            self._spans,
            self._key_spans,
            self._surprises,
            _has_null(self._value),
            self._elsewhere,
            self._keys_elsewhere,
        )

    def _merge(
        self,
        target: Any,
        change: Mapping[str, Any],
        at: Path,
        source: Path,
        overlay: Written,
        removed: list[Path],
    ) -> dict[str, Any]:
        merged = dict(target) if isinstance(target, dict) else {}
        for name, value in change.items():
            here, there = (*at, name), (*source, name)
            if value is None:
                if name in merged:
                    del merged[name]
                    removed.append(here)
                    self._forget(here)
                    self._elsewhere[here] = overlay.value(there)
            elif isinstance(value, dict):
                inner = merged.get(name)
                if not isinstance(inner, dict):
                    self._take(here, there, overlay)
                merged[name] = self._merge(inner, value, here, there, overlay, removed)
            else:
                merged[name] = value
                self._take(here, there, overlay)
                self._take_inside(here, there, overlay)
        return merged

    def _take(self, here: Path, there: Path, overlay: Written) -> None:
        """The value of the overlay stands at `here` now, and whatever stood there does not."""
        self._forget(here)
        self._elsewhere[here] = overlay.value(there)
        self._keys_elsewhere[here] = overlay.key(there)
        surprises = overlay.document.surprises
        if there in surprises:
            self._surprises[here] = surprises[there]

    def _take_inside(self, here: Path, there: Path, overlay: Written) -> None:
        """The same for the items of a list."""
        size, document = len(there), overlay.document
        for path in document.spans:
            if len(path) > size and path[:size] == there:
                inner = (*here, *path[size:])
                self._elsewhere[inner] = overlay.value(path)
                if path in document.key_spans:
                    self._keys_elsewhere[inner] = overlay.key(path)
                if path in document.surprises:
                    self._surprises[inner] = document.surprises[path]

    def _forget(self, path: Path) -> None:
        """No position at or below `path` is true any more."""
        self._spans = _without(self._spans, path)
        self._key_spans = _without(self._key_spans, path)
        self._surprises = _without(self._surprises, path)
        self._elsewhere = _without(self._elsewhere, path)
        self._keys_elsewhere = _without(self._keys_elsewhere, path)


def with_values(document: Document, values: Mapping[Path, Any]) -> Document:
    """`document` with other values at some paths, which stay where they stand."""
    value = document.value
    for path, new in values.items():
        value = _with(value, path, new)
    return Document(
        value,
        document.spans,
        document.key_spans,
        document.surprises,
        document.has_nulls,
        document.elsewhere,
        document.keys_elsewhere,
    )


def _with(value: Any, path: Path, new: Any) -> Any:
    return {**value, path[0]: _with(value[path[0]], path[1:], new)} if path else new


def _without(found: Mapping[Path, Any], path: Path) -> dict[Path, Any]:
    size = len(path)
    return {each: value for each, value in found.items() if each[:size] != path}


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
