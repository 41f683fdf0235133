"""Frozen data that pydantic reads and writes as JSON: plan files and the journal hold it."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict, fields
from pydantic_core import PydanticSerializationUnexpectedValue, core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


class Saved(Struct, frozen=True):
    """Base of frozen data in JSON. A field that JSON lacks has its default; unknown fields are ignored."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: "GetCoreSchemaHandler"
    ) -> core_schema.CoreSchema:
        types = get_type_hints(cls)
        known = core_schema.typed_dict_schema(
            {
                field.name: core_schema.typed_dict_field(
                    handler.generate_schema(types[field.name]), required=field.required
                )
                for field in fields(cls)
            }
        )
        return core_schema.no_info_after_validator_function(
            lambda values: cls(**values),
            known,
            serialization=core_schema.plain_serializer_function_ser_schema(cls._values, return_schema=known),
        )

    @classmethod
    def _values(cls, value: Any) -> dict[str, Any]:
        if not isinstance(value, cls):  # of a union, it is another one's
            raise PydanticSerializationUnexpectedValue("")
        return asdict(value)


class Digest:
    """A text that `take` computes once, when it is first needed: most plans are looked at, and not kept.

    The data that it is computed from must not change. Two are equal if their texts are. In JSON, the text.
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
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: "GetCoreSchemaHandler"
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            _taken,
            core_schema.str_schema(),
            serialization=core_schema.to_string_ser_schema(),
        )


def _taken(text: str) -> Digest:
    return Digest(lambda: text)
