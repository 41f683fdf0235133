"""A digest that is taken when somebody asks for it."""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class Digest:
    """A text that `take` makes, when it is first asked for and once: most plans are looked at, and not kept.

    What it is of must not change. Two are equal if their texts are. In JSON, the text.
    """

    def __init__(self, take: Callable[[], str] = str) -> None:
        self._take = cache(take)

    def __str__(self) -> str:
        return self._take()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (str(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            _taken,
            core_schema.str_schema(),
            serialization=core_schema.to_string_ser_schema(),
        )


def _taken(text: str) -> Digest:
    return Digest(lambda: text)
