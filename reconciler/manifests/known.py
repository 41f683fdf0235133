"""The values of the files that this run has read: files that several loads share are read once.

Positions are for diagnostics, so they are read only when one is asked for. Until then, a hundred thousand
manifests have their text in memory, which is half as large as their positions.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import from_json, to_json

from reconciler.core.model import SHOWN, Path
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.reading.compose import NO_SURPRISES, Document, compose
from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.reading.spans import Positions, SpanTable


class Known:
    """Values by the bytes of their file, as JSON; None for a file that `compose` has to read.

    `specs`: valid specs without secrets, by kind and JSON; equal manifests share one.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}
        self.specs: dict[tuple[ManifestKind, bytes], Any] = {}

    def files(self) -> Iterable[bytes]:
        """Return the bytes of all files that were asked for."""
        return self._values.keys()

    def documents(self, file: str, data: bytes, table: SpanTable) -> list[Document] | None:
        """Return the documents of a file with the bytes `data`; None where `compose` has to read them."""
        if data not in self._values:
            values = line_values(data)
            self._values[data] = to_json(values) if values is not None else None
        known = self._values[data]
        if known is None:
            return None
        text, has_nulls = _Text(data, table), b"null" in known
        return [
            Document(
                file,
                value,
                LaterSpans(text, number, False),
                LaterSpans(text, number, True),
                NO_SURPRISES,
                has_nulls,
            )
            for number, value in enumerate(from_json(known))
        ]


class _Text:
    """The bytes of one file until they are composed, then the positions in its documents."""

    __slots__ = ("_composed", "_data", "_table")

    def __init__(self, data: bytes, table: SpanTable) -> None:
        self._data = data
        self._table = table
        self._composed: list[tuple[Mapping[Path, int], Mapping[Path, int]]] | None = None

    def positions(self, number: int, keys: bool) -> Mapping[Path, int]:
        """Return the positions of the values, or of the `keys`, of the document `number`."""
        if self._composed is None:
            documents = compose(self._data, "", self._table).documents
            self._composed = [(document.spans, document.key_spans) for document in documents]
            self._data = b""
        return self._composed[number][keys]


class LaterSpans(Positions):
    """Positions that are read when one is asked for."""

    __slots__ = ("_keys", "_mark", "_number", "_text")

    def __init__(self, text: _Text, number: int, keys: bool, mark: int = 0) -> None:
        self._text = text
        self._number = number
        self._keys = keys
        self._mark = mark

    def shown(self) -> "LaterSpans":
        return LaterSpans(self._text, self._number, self._keys, SHOWN)

    def __getitem__(self, path: Path) -> int:
        return self._text.positions(self._number, self._keys)[path] | self._mark

    def __iter__(self) -> Iterator[Path]:
        return iter(self._text.positions(self._number, self._keys))

    def __len__(self) -> int:
        return len(self._text.positions(self._number, self._keys))
