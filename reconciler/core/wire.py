"""The base of all wire models: tolerant reading, their place in an answer, and times of every precision."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_TIME = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})[Tt ](?P<clock>\d{2}:\d{2}:\d{2})(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?P<offset>[Zz]|[+-]\d{2}:?\d{2})?"
)


# Ids are put into paths, and into commands that people paste: no character may have a meaning there.
ID = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,254}"
_ID = re.compile(ID)


def is_id(text: str) -> bool:
    """Whether `text` may be the id of an object."""
    return _ID.fullmatch(text) is not None


class Wire(BaseModel):
    """`shape`: the name in saved plans and in the journal for an answer with one such object, for models
    that a `Read` asks for. Never change it. An answer with several objects has the same name plus `s`.

    `ids`: its fields that hold ids which we use.

    `one_at`, `many_at`: the field of the answer that holds the object, or the objects ("": the whole answer).
    `may_be_empty`: an answer without a body is one without fields.
    """

    shape: ClassVar[str] = ""
    one_at: ClassVar[str] = ""
    many_at: ClassVar[str] = ""
    ids: ClassVar[tuple[str, ...]] = ("id",)
    may_be_empty: ClassVar[bool] = False

    model_config = ConfigDict(
        extra="allow",
        populate_by_name=True,
        coerce_numbers_to_str=True,
        defer_build=True,  # a run meets few of the models
    )

    @property
    def present(self) -> bool:
        """Whether the object still exists; an unknown state counts as existing."""
        return True

    @property
    def bad_id(self) -> str:
        """The first field whose value is not a valid id; "" if all are valid."""
        for name in _declared_ids(type(self)):
            value = getattr(self, name)
            if isinstance(value, str) and not is_id(value) and (value or name == "id"):
                return name
        return ""


@cache
def _declared_ids(model: type[Wire]) -> tuple[str, ...]:
    return tuple(name for name in model.ids if name in model.model_fields)


class Shape(Struct, frozen=True):
    """What the answer to a GET contains: one object of `model`, or `many`. As text: its permanent name."""

    model: type[Wire]
    many: bool = False

    def __str__(self) -> str:
        return f"{self.model.shape}s" if self.many else self.model.shape

    @classmethod
    def named(cls, name: str) -> "Shape":
        """The shape of that name, of the models imported so far. Raises ValueError for any other name."""
        for model in cls.models():
            if name in (model.shape, f"{model.shape}s"):
                return cls(model, many=name != model.shape)
        raise ValueError(f"no answer has the shape `{name}`")

    @staticmethod
    def models() -> Iterator[type[Wire]]:
        """The models imported so far that a `Read` may ask for."""
        left = Wire.__subclasses__()
        while left:
            model = left.pop()
            left += model.__subclasses__()
            if "shape" in vars(model):
                yield model

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """In JSON, its name."""
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls.named(str(value)),
            serialization=core_schema.to_string_ser_schema(),
        )


def shown_enum(*words: str) -> Any:
    """A field of an answer whose documented words the description shows, though others are read as well."""
    return Field(None, json_schema_extra={"enum": [*words, None]})


def one(model: type[Wire]) -> Shape:
    """Return the shape of an answer with one object of `model`."""
    return Shape(model)


def many(model: type[Wire]) -> Shape:
    """Return the shape of an answer with several objects of `model`."""
    return Shape(model, many=True)


def parse_time(text: str | None) -> datetime | None:
    """The moment in UTC; None for missing, unreadable and year-1 times, which all mean "not known".

    Accepts 0 to 9 fraction digits and `Z` or an offset. Source: platform notes, "Errors, limits, headers".
    """
    found = _TIME.fullmatch(text) if text else None
    if not found:
        return None
    fraction = (found["fraction"] or "")[:6].ljust(6, "0")
    offset = (found["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{found['day']}T{found['clock']}.{fraction}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year > 1 else None
