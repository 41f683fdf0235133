"""Reads the parts of an answer: wire models, JSON, error text, time and request id."""

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from types import GenericAlias
from typing import Any

from pydantic import TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from reconciler.core.wire import Shape, Wire
from reconciler.services.transport import Answer

MAX_TEXT = 500  # characters of an error text that are kept

NOT_JSON = object()  # tells "not JSON" from the JSON null


def parsed(body: bytes) -> Any:
    """The JSON value of `body`, or `NOT_JSON` (an empty body is not JSON)."""
    try:
        return from_json(body)
    except ValueError:
        return NOT_JSON


def is_html(answer: Answer) -> bool:
    """Whether the answer is HTML: the platform sends none, so a proxy or a gateway wrote it."""
    return "html" in answer.headers.get("content-type", "").lower() or answer.body.lstrip()[:1] == b"<"


def at_path(value: Any, path: str) -> Any:
    """The part of a JSON value at the dotted `path`; None if there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def error_text(answer: Answer, reply: Any) -> tuple[str, str]:
    """The code word and the text of an error answer, clean and short; both may be empty.

    The code word is in `status`. The text is in `error`, `message` or `errors.detail`, or it is the plain
    body. `reply`: the parsed body. Source: platform notes, "Errors, limits, headers".
    """
    if isinstance(reply, dict):
        texts = (at_path(reply, path) for path in ("error", "message", "errors.detail"))
        text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
        code = reply.get("status")
        return cleaned(code) if isinstance(code, str) else "", cleaned(text)
    if isinstance(reply, str):
        return "", cleaned(reply)
    if is_html(answer):
        return "", "an HTML page"
    return "", cleaned(answer.body[: 4 * MAX_TEXT].decode("utf-8", "replace"))


def first_difference(error: ValidationError) -> str:
    """The first place where an answer differs from its shape, and how, without quoting the answer."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = cleaned(".".join(map(str, first["loc"])))
    return f"`{place}`: {first['type']}" if place else first["type"]


def cleaned(text: str) -> str:
    """`text` on one line, without control and formatting characters, at most `MAX_TEXT` characters long.

    It comes from the network and is printed on terminals, where an escape sequence could hide other text.
    """
    visible = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text[: 4 * MAX_TEXT])
    line = " ".join(visible.split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def request_id(answer: Answer) -> str:
    """The platform's id of this request, from a header with any prefix; "" if there is none."""
    found = (value for name, value in answer.headers.items() if name.endswith("request-id"))
    return cleaned(next(found, ""))


@lru_cache(maxsize=64)  # all answers of one second have the same text
def http_date(text: str) -> datetime | None:
    """The moment of an HTTP date in UTC; None if it is missing or unreadable."""
    try:
        moment = parsedate_to_datetime(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


@cache
def _adapter(shape: Shape) -> TypeAdapter[Any]:
    """The parser of a whole answer."""
    held: Any = GenericAlias(list, shape.model) if shape.many else shape.model
    fields: dict[str, Any] = {_field(shape): (held, ...)}
    return TypeAdapter(create_model("Answer", __base__=Wire, **fields) if _field(shape) else held)


def _field(shape: Shape) -> str:
    """The field of the answer that contains the objects; "": the answer has no such field."""
    return shape.model.many_at if shape.many else shape.model.one_at


def read_shape(shape: Shape, body: bytes) -> Sequence[Any]:
    """The objects in `body`, one for a single answer. Raises pydantic.ValidationError (a ValueError)."""
    if shape.model.may_be_empty and not body.strip():
        body = b"{}"
    answer = _adapter(shape).validate_json(body)
    found = getattr(answer, _field(shape)) if _field(shape) else answer
    return found if shape.many else [found]
