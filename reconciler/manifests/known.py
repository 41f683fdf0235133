"""What files hold, by their bytes: no file is composed twice in a run, whatever it is called."""

from collections.abc import Iterable, Sequence

from pydantic_core import from_json, to_json

from reconciler.manifests.reading.compose import Document
from reconciler.manifests.reading.later import documents_of
from reconciler.manifests.reading.plain import plain_values
from reconciler.manifests.reading.spans import SpanTable


class Known:
    """The values of the files that one run has read, as JSON; None for a file that `compose` has to read."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}

    def holds(self, data: bytes) -> bool:
        return data in self._values

    def files(self) -> Iterable[bytes]:
        """The bytes of all files that were asked for."""
        return self._values.keys()

    def learn(self, files: Sequence[bytes], values: Iterable[bytes | None]) -> None:
        """What another process has found: see `values_of`."""
        self._values.update(zip(files, values, strict=True))

    def documents(self, data: bytes, table: SpanTable) -> list[Document] | None:
        """As `compose` would read `data`; None where only `compose` can."""
        if data not in self._values:
            (self._values[data],) = values_of([data])
        values = self._values[data]
        if values is None:
            return None
        return documents_of(from_json(values), data, table, has_nulls=b"null" in values)


def values_of(files: Iterable[bytes]) -> list[bytes | None]:
    """The values of the documents of each file as one JSON list; None: see `plain_values`."""
    found = map(plain_values, files)
    return [to_json(values) if values is not None else None for values in found]
