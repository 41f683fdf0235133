"""Frozen data that pydantic reads and writes as JSON: what plan files and the journal hold."""

from typing import TYPE_CHECKING, Any, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict, fields
from pydantic_core import PydanticSerializationUnexpectedValue, core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


class Saved(Struct, frozen=True):
    """What is not said of a field that JSON lacks is its default; fields that nobody knows are ignored."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: "GetCoreSchemaHandler"
    ) -> core_schema.CoreSchema:
        types = get_type_hints(cls)
        known = core_schema.typed_dict_schema(
            {
                each.name: core_schema.typed_dict_field(
                    handler.generate_schema(types[each.name]), required=each.required
                )
                for each in fields(cls)
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
