"""Typed reading of request bodies: the value, None when missing, or a Refusal that names the field.

For documents that pydantic reads, `problems` names what is wrong in a person's words: place and sentence.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from reconciler.core.wire import parse_time
from reconciler.sandbox.clock import YEAR_ONE_S
from reconciler.sandbox.exchange import Refusal

# What every client can put into a path.
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"
INVALID = "invalid_argument"
MOST = 2**53 - 1  # what numbers of every client hold
NOT_BLANK = re.compile(r"[^\x00-\x20]")  # the same as in the description, whatever counts as a space


def text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise refused(name, "must be a string")
    return value


def required_text(body: Mapping[str, Any], name: str) -> str:
    value = text(body, name)
    if value is None or not NOT_BLANK.search(value):
        raise refused(name, "is required")
    return value


def name(body: Mapping[str, Any], field: str) -> str | None:
    """A text that every client can put into a path."""
    value = text(body, field)
    if value is not None and not re.fullmatch(NAME, value):
        raise refused(field, "must be letters, digits, dots, dashes and underscores, at most 200")
    return value


def required_name(body: Mapping[str, Any], field: str) -> str:
    required_text(body, field)
    return name(body, field) or ""


def texts(body: Mapping[str, Any], name: str, of: str) -> list[str] | None:
    value = body.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise refused(name, f"must be an array of {of}")
    return value


def moment(body: Mapping[str, Any], name: str) -> float | None:
    """Seconds since the epoch, `YEAR_ONE_S` for year 1. Raises Refusal for others before 1970."""
    value = text(body, name)
    if value is None:
        return None
    if value.startswith("0001-"):
        return YEAR_ONE_S
    parsed = parse_time(value)
    if parsed is None or parsed.timestamp() < 0:
        raise refused(name, "must be a date and time since 1970, or in year 1")
    return parsed.timestamp()


def whole(body: Mapping[str, Any], name: str, low: int, high: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 10.0 is an integer in JSON's own terms
    if not isinstance(value, int) or isinstance(value, bool):
        raise refused(name, "must be an integer")
    if high is None and value > MOST:
        raise refused(name, f"must be at most {MOST}")
    if value < low or (high is not None and value > high):
        raise refused(
            name, f"must be between {low} and {high}" if high is not None else f"must be at least {low}"
        )
    return value


def flag(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise refused(name, "must be true or false")
    return value


def choice(body: Mapping[str, Any], name: str, options: Sequence[str]) -> str | None:
    value = text(body, name)
    if value is not None and value not in options:
        raise refused(name, f"must be one of {', '.join(options)}")
    return value


def refused(name: str, problem: str) -> Refusal:
    return Refusal(422, f"{name} {problem}", INVALID, details={name: problem})


def precondition(problem: str) -> Refusal:
    return Refusal(412, f"failed_precondition: {problem}", "failed_precondition")


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
