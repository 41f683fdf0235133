"""The values of files that this run has read: files that several loads share are read once."""

from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json, to_json

from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.reading.compose import Document
from reconciler.manifests.reading.later import documents_of
from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.reading.spans import SpanTable


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
