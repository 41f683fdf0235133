"""What pydantic finds wrong in a document, in a person's words: a place and a sentence for each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text; put numbers, true and false in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "extra_forbidden": "is unknown",
    "unexpected_keyword_argument": "is unknown",
    "union_tag_invalid": "is unknown",
}
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type", "dataclass_type", "dataclass_exact_type")
_BRANCHES = ("int", "str")  # of a union: a part of pydantic's location, but of no document


def problems(error: ValidationError, place: str = "") -> list[str]:
    """Each problem as `place: what is wrong`; places such as `volumes[1].size_gb`, below `place`."""
    found = []
    for each in error.errors(include_url=False):
        where = located(place, [part for part in each["loc"] if part not in _BRANCHES])
        said = _sentence(each["type"], each["msg"], each.get("ctx", {}))
        found.append(f"{where}: {said}" if where else said)
    return list(dict.fromkeys(found))


def located(place: str, parts: Iterable[int | str]) -> str:
    for part in parts:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    return place


def _sentence(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind in _MAPPINGS:
        return "must be a mapping"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be one of {context['expected']}".replace("'", "").replace(" or ", ", ")
    return _WORDS.get(kind) or message.replace("Input should", "must").replace("String should", "must")


def listed(found: Sequence[str], name: str) -> str:
    """All problems of the document `name`, a line each."""
    return "\n".join(f"{name}: {each}" for each in found)
