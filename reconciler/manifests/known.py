"""What files hold, by their bytes: no file is composed twice in a run, and in the next one if it was kept."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.harmless import may_hold_secret
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.later import documents_of
from reconciler.manifests.reading.lines import line_values
from reconciler.manifests.reading.spans import SpanTable
from reconciler.manifests.stored import Stored

BYTES_WORTH_KEEPING = 50_000  # of all files: below, composing them takes a few milliseconds


class Known:
    """The values of the files that one run has read, as JSON; None for a file that `compose` has to read.

    `stored`: the values that earlier runs have kept. `specs`: valid ones without secrets, by kind and JSON.
    """

    def __init__(self, stored: Stored | None = None) -> None:
        self._values: dict[bytes, bytes | None] = {}
        self._stored = stored
        self._kept: dict[bytes, bytes] = {}  # what is stored, or is to be
        self._is_new = False
        self.specs: dict[tuple[ManifestKind, bytes], Any] = {}

    def files(self) -> Iterable[bytes]:
        """The bytes of all files that were asked for."""
        return self._values.keys()

    def recall(self, files: Sequence[bytes]) -> None:
        """Learn what earlier runs have kept of these files."""
        if self._stored is None or sum(map(len, files)) < BYTES_WORTH_KEEPING:
            return
        for data in files:
            if data not in self._values and (values := self._stored.take(data)) is not None:
                self._values[data] = self._kept[data] = values

    def documents(self, data: bytes, table: SpanTable) -> list[Document] | None:
        """As `compose` would read `data`; None where only `compose` can."""
        if data not in self._values:
            values = line_values(data)
            self._values[data] = to_json(values) if values is not None else _composed(data)
        known = self._values[data]
        if known is None:
            return None
        return documents_of(from_json(known), data, table, has_nulls=b"null" in known)

    def keep(self, files: Sequence[bytes], secret_kinds: Sequence[bytes]) -> None:
        """Keep for the next run what `files` hold, of which nobody had anything to say.

        `secret_kinds`: the names of kinds that hold secrets. What may hold one is left out.
        """
        if self._stored is None or sum(map(len, files)) < BYTES_WORTH_KEEPING:
            return
        for data in files:
            values = self._values.get(data)
            if values is None or data in self._kept or may_hold_secret(data, values, secret_kinds):
                continue
            self._kept[data] = values
            self._is_new = True

    def save(self) -> None:
        """Write down what was kept, if any of it is new. Never fails: the next run composes it again."""
        if self._stored is not None and self._is_new:
            self._stored.save(self._kept.items())
            self._is_new = False


def _composed(data: bytes) -> bytes | None:
    """The values of the documents in `data` as one JSON list; None where values are not all that counts."""
    if b"&" in data:  # what an alias repeats is one value, and would be many in JSON
        return None
    composed = compose(data, "")
    return to_json([document.value for document in composed.documents]) if composed.is_plain else None
