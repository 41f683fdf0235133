"""The values of files that this run has read: files that several loads share are read once.

Positions are read again when somebody asks for one. Hardly anybody does: positions are for diagnostics. So a
hundred thousand manifests keep their text in memory, which is half of what their positions take.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json, to_json

from reconciler.core.model import Path
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.reading.spans import LaterSpans, SpanTable


class Known:
    """Values by the bytes of their file, as JSON; None for a file that `compose` has to read.

    `specs`: valid ones without secrets, by kind and JSON.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}
        self.specs: dict[tuple[ManifestKind, bytes], Any] = {}

    def files(self) -> Iterable[bytes]:
        """The bytes of all files that were asked for."""
        return self._values.keys()

    def documents(self, data: bytes, table: SpanTable) -> list[Document] | None:
        """The documents of a file with the bytes `data`; None where `compose` has to read them."""
        if data not in self._values:
            values = line_values(data)
            self._values[data] = to_json(values) if values is not None else None
        known = self._values[data]
        if known is None:
            return None
        return documents_of(from_json(known), data, table, has_nulls=b"null" in known)


_NO_SURPRISES: Mapping[Path, str] = MappingProxyType({})


class _Text:
    """The bytes of one file, until they are composed; then the positions in its documents."""

    __slots__ = ("_composed", "_data", "_table")

    def __init__(self, data: bytes, table: SpanTable) -> None:
        self._data = data
        self._table = table
        self._composed: list[tuple[Mapping[Path, int], Mapping[Path, int]]] | None = None

    def positions(self, number: int, *, keys: bool) -> Mapping[Path, int]:
        if self._composed is None:
            documents = compose(self._data, "", self._table).documents
            self._composed = [(each.spans, each.key_spans) for each in documents]
            self._data = b""
        return self._composed[number][keys]


def documents_of(values: Sequence[Any], data: bytes, table: SpanTable, *, has_nulls: bool) -> list[Document]:
    """The documents of a file with the bytes `data`, whose `values` are those that `compose` would read."""
    text = _Text(data, table)
    return [
        Document(
            value,
            LaterSpans(text, number, keys=False),
            LaterSpans(text, number, keys=True),
            _NO_SURPRISES,
            has_nulls,
        )
        for number, value in enumerate(values)
    ]
