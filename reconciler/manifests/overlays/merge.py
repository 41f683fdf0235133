"""Applies merge patches (RFC 7386) to a document; every value keeps the position where it was written.

An entry of an overlay names its kinds, but a line may hold parts of several entries, and one entry may be for
several kinds. So `with_private_lines` decides for whole lines whether they may hold a secret, and marks all
positions on them: no check that finds a problem there shows the line.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from reconciler.core.diagnostics import Span
from reconciler.core.model import Path
from reconciler.manifests.reading.compose import Document
from reconciler.manifests.validation.envelope import LifecycleBlock

# Fields without secrets in an entry for a kind with secrets. Any other field may be a misplaced value.
_PLAIN = {
    "metadata": frozenset({"app", "id", "labels", "name"}),
    "lifecycle": frozenset(LifecycleBlock.model_fields),
}


def with_private_lines(document: Document, holds_secrets: Callable[[str], bool]) -> Document:
    """Return a document of patches in which only lines that may hold a secret are private.

    `holds_secrets`: whether the target of an entry may hold one.
    """
    private = frozenset(_private_lines(document, holds_secrets))

    def marked(spans: Mapping[Path, Span]) -> dict[Path, Span]:
        return {path: span._replace(private=span.line in private) for path, span in spans.items()}

    return replace(document, spans=marked(document.spans), key_spans=marked(document.key_spans))


class _Section(NamedTuple):
    """The text from the key at `begin` to the next section. `alone`: its first line has no other one."""

    begin: Span
    private: bool
    alone: bool


def _private_lines(document: Document, holds_secrets: Callable[[str], bool]) -> Iterator[int]:
    secret = [target for target in document.value if holds_secrets(target)]
    if not secret:
        return
    positions = (*document.spans.values(), *document.key_spans.values())
    lines = range(1, max(span.line for span in positions) + 1)
    if any(_is_brought(document, (target,), document.value[target]) for target in secret):
        yield from lines  # the place of the anchor is not known
        return
    sections = sorted(_sections(document, frozenset(secret)))
    for section, after in zip(sections, [*sections[1:], None], strict=True):
        if section.private:
            last = lines.stop - 1 if after is None else after.begin.line - after.alone
            yield from range(section.begin.line, last + 1)


def _sections(document: Document, secret: frozenset[str]) -> Iterator[_Section]:
    """Yield the sections of entries, of their fields, and of those in `metadata` and `lifecycle`."""

    def below(path: Path, value: Mapping[str, Any]) -> Iterator[_Section]:
        keys = {name: document.key_spans[*path, name] for name in value}
        # The position of a mapping in braces is that of its brace, before its first key.
        alone = bool(keys) and min(keys.values())[:3] == document.spans[path][:3]
        for name, begin in keys.items():
            inner = (*path, name)
            private = inner[0] in secret and _is_private(inner, value[name])
            yield _Section(begin, private, alone)
            if inner[0] in secret and not private and len(inner) < 3 and isinstance(value[name], dict):
                yield from below(inner, value[name])

    return below((), document.value)


def _is_private(path: Path, value: Any) -> bool:
    """Whether the section of the field at `path`, in an entry for secrets, may hold one."""
    if len(path) > 1 and path[1] not in _PLAIN:
        return True
    if len(path) > 2:
        return path[2] not in _PLAIN[str(path[1])]
    return not isinstance(value, dict | None)  # a literal where a mapping belongs


def _is_brought(document: Document, path: Path, value: Any) -> bool:
    """Whether `value`, or a part of it, is from an alias: it has no position, or that of the alias."""
    key = document.key_spans.get(path)
    if path not in document.spans or (key is not None and key >= document.spans[path]):
        return True
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return any(_is_brought(document, (*path, name), item) for name, item in items)


class Merged:
    """A document being patched. The original, and the patches, stay as they are.

    `document`: as it is after the patches so far.
    """

    def __init__(self, original: Document) -> None:
        self.document = original

    def patch(self, change: Mapping[str, Any], source: Path, overlay: Document) -> list[Path]:
        """Merge `change`, at the path `source` of `overlay`. Return the paths in `change` that it removed."""
        removed: list[Path] = []
        value = self._merge(self.document.value, change, (), source, overlay, removed)
        has_nulls = self.document.has_nulls or overlay.has_nulls
        self.document = replace(self.document, value=value, has_nulls=has_nulls)
        return removed

    def _merge(
        self,
        target: Any,
        change: Mapping[str, Any],
        at: Path,
        source: Path,
        overlay: Document,
        removed: list[Path],
    ) -> dict[str, Any]:
        merged = dict(target) if isinstance(target, dict) else {}
        for name, value in change.items():
            here, there = (*at, name), (*source, name)
            if value is None:
                if name in merged:
                    del merged[name]
                    removed.append(here)
                    self._place(here, {here: overlay.span(there)}, {}, {})
            elif isinstance(value, dict):
                inner = merged.get(name)
                if not isinstance(inner, dict):
                    self._take(here, there, overlay, inside=False)
                merged[name] = self._merge(inner, value, here, there, overlay, removed)
            else:
                merged[name] = value
                self._take(here, there, overlay, inside=True)
        return merged

    def _take(self, here: Path, there: Path, overlay: Document, *, inside: bool) -> None:
        """Let the value at `there` of the overlay replace the one at `here`. `inside`: with its items."""
        size = len(there)
        items = (path for path in overlay.spans if len(path) > size and path[:size] == there)
        taken = {path: (*here, *path[size:]) for path in ((there, *items) if inside else (there,))}
        self._place(
            here,
            {to: overlay.span(path) for path, to in taken.items()},
            {
                to: overlay.key_span(path)
                for path, to in taken.items()
                if path == there or path in overlay.key_spans
            },
            {to: overlay.surprises[path] for path, to in taken.items() if path in overlay.surprises},
        )

    def _place(
        self, path: Path, spans: dict[Path, Span], key_spans: dict[Path, Span], surprises: dict[Path, str]
    ) -> None:
        """Let these positions replace all at and below `path`."""
        before = self.document
        self.document = replace(
            before,
            spans=_without(before.spans, path),
            key_spans=_without(before.key_spans, path),
            surprises=_without(before.surprises, path) | surprises,
            overlaid=_without(before.overlaid, path) | spans,
            overlaid_keys=_without(before.overlaid_keys, path) | key_spans,
        )


def with_values(document: Document, values: Mapping[Path, Any]) -> Document:
    """Return `document` with other values at some paths; positions stay the same."""
    value = document.value
    for path, new in values.items():
        value = with_value_at(value, path, new)
    return replace(document, value=value)


def with_value_at(value: Mapping[str, Any], path: Path, new: Any) -> dict[str, Any]:
    """Return `value` with another one at `path`, which is not empty."""
    name, inside = str(path[0]), path[1:]
    return {**value, name: with_value_at(value[name], inside, new) if inside else new}


def _without(found: Mapping[Path, Any], path: Path) -> dict[Path, Any]:
    size = len(path)
    return {other: value for other, value in found.items() if other[:size] != path}
