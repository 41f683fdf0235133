"""One request and its answer, the refusal that a handler may raise, and how bodies are read.

Bodies are read by pydantic models: the wire models of the platform, which its description shows, too, and the
forms of seeds. Nothing is coerced. What is wrong is said in a person's words: place and sentence.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from reconciler.services.machines.wire import cluster

if TYPE_CHECKING:
    from jinja2 import Template

NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$"  # every client can put it into a path
COSTS_PATH = r"^(/[!-~]*)?$"
NOT_BLANK = r"[^\x00-\x20]"  # the same as in the description, whatever counts as a space
INVALID = "invalid_argument"
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
M = TypeVar("M", bound=BaseModel)


class Request(Struct, frozen=True):
    """`path` is as sent: percent-encoded and without the query. Header names are in lower case.

    `local`: it came over the Unix socket, where a machine may suspend itself without a token.
    `late`: its body did not come within the time for it. `organizations`: slugs of those that its
    token may touch, None for all.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    local: bool = False
    late: bool = False
    organizations: frozenset[str] | None = None

    def may_touch(self, slug: str) -> bool:
        """Whether its token may touch the organization."""
        return self.organizations is None or slug in self.organizations

    def parameter(self, name: str) -> str | None:
        """The first value of a query parameter. Parameters that no handler asks for are ignored."""
        return next(iter(self.parameters(name)), None)

    def parameters(self, name: str) -> list[str]:
        """All values of a query parameter that may be repeated."""
        return [value for key, value in parse_qsl(self.query, keep_blank_values=True) if key == name]

    def seconds(self, name: str, longest: int) -> int | None:
        """A query parameter, 1 to `longest` seconds, None without one. Raises Refusal 422 for other texts."""
        text = self.parameter(name)
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= longest:
            raise refused(name, f"must be between 1 and {longest} seconds")
        return int(text)

    def json(self) -> Any:
        """The decoded body, `{}` for an empty one. Raises Refusal 400 when it is not JSON."""
        if not self.body.strip():
            return {}
        try:
            return json.loads(self.body, parse_constant=_no_constant, parse_float=_number)
        except (ValueError, RecursionError):
            raise Refusal(400, "the request body is not valid JSON", INVALID) from None

    def object(self) -> dict[str, Any]:
        """The decoded body without its nulls, which mean missing. Raises Refusal 400 unless an object."""
        body = self.json()
        if not isinstance(body, dict):
            raise Refusal(400, "the request body must be a JSON object", INVALID)
        return {key: value for key, value in body.items() if value is not None}

    def read(self, model: type[M]) -> M:
        """The body as `model`. Raises Refusal: 400 unless it is a JSON object, 422 for a wrong field."""
        return read(self.object(), model)


@dataclasses.dataclass(slots=True)
class Response:
    """An answer, and how the HTTP front is to spoil it.

    `delay_s` are real seconds to hold the answer back, `drip_s` those between two bytes of its body
    (in a long one, between two of a hundred pieces). `cut`: "drop" closes the
    connection without an answer, "truncate" in the middle of the body. `again_s`: for so many
    seconds of the world's clock after the request came, asking again may give a better answer.
    A dataclass, because faults change the answer.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    delay_s: float = 0.0
    drip_s: float = 0.0
    again_s: float = 0.0
    cut: Literal["", "drop", "truncate"] = ""

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


def changed(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """A copy of `value`, a JSON value, in which each text, number, word and null is as `change` gives it.

    `change` is called with the name of the field that holds it, "" in a list.
    """
    if isinstance(value, dict):
        return {name: changed(part, change, name) for name, part in value.items()}
    return [changed(part, change) for part in value] if isinstance(value, list) else change(name, value)


def without_nulls(value: Any) -> Any:
    """`value` without fields that are null."""
    if isinstance(value, Mapping):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


class Refusal(Exception):
    """Raised by a handler instead of an answer, before it changes the world.

    `code` is the word under `status` in the groups whose error bodies have one.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.details = details or {}
        self.headers = headers or {}


def refused(name: str, problem: str) -> Refusal:
    """The refusal (422) of a field; `problem` goes on from its name: "must be at least 1"."""
    return Refusal(422, f"{name} {problem}", INVALID, details={name: problem})


def precondition(problem: str) -> Refusal:
    """The refusal (412) of a call that the present state of the object forbids."""
    return Refusal(412, f"failed_precondition: {problem}", "failed_precondition")


def reply(data: Any, status: int = 200) -> Response:
    """An answer with `data` as JSON, without spaces."""
    return Response(status, _encode(data).encode())


def page(template: str, headers: dict[str, str], status: int = 200, **values: object) -> Response:
    """Render a page for people. Every value is escaped; `template` is a file of this package."""
    text = _template(template).render(**values)
    return Response(status, text.encode("utf-8", "replace"), "text/html; charset=utf-8", dict(headers))


@cache
def _template(name: str) -> "Template":
    from importlib import resources  # late, as jinja2: a sandbox in process shows no pages

    from jinja2 import Environment

    source = resources.files("reconciler.sandbox").joinpath(name).read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(source)


def read(body: Mapping[str, Any], model: type[M], *, extra: Literal["ignore"] | None = None) -> M:
    """`body` as `model`. Raises Refusal 422, which names the first field that is wrong.

    With `extra="ignore"`, fields that a strict model does not know are left out instead.
    """
    try:
        return model.model_validate(body, strict=True, extra=extra)
    except ValidationError as error:
        place, _, problem = problems(error)[0].partition(": ")
        known = f"; known are {', '.join(model.model_fields)}" if problem == UNKNOWN else ""
        raise refused(place, f"{problem}{known}") from None


UNKNOWN = "is unknown"
_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    "string_type": "must be text; put numbers, true and false in quotes",
    "string_unicode": "must be valid Unicode",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "list_type": "must be a list",
    "extra_forbidden": UNKNOWN,
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a mapping"),
}
_PATTERNS: Mapping[str, str] = {
    COSTS_PATH: "must begin with a slash",
    NOT_BLANK: "must not be blank",
    cluster.NAME: "must be at most 63 printable characters",
    cluster.PLAN: f"must be one of {', '.join(cluster.PLANS)}",
    NAME: "must be letters, digits, dots, dashes and underscores, at most 200",
}
_BRANCHES = ("int", "str", "constrained-int")  # of a union: a part of pydantic's location, but of no document


def problems(error: ValidationError) -> list[str]:
    """Each problem as `place: sentence`; places such as `volumes[1].size_gb`."""
    found = []
    for problem in error.errors(include_url=False):
        where = located("", [part for part in problem["loc"] if part not in _BRANCHES])
        said = _sentence(problem["type"], problem["msg"], problem.get("ctx", {}))
        found.append(f"{where}: {said}" if where else said)
    return list(dict.fromkeys(found))


def located(place: str, parts: Iterable[int | str]) -> str:
    """The place of `parts` below `place`: `volumes[1].size_gb`."""
    for part in parts:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    return place


def listed(found: Sequence[str], name: str) -> str:
    """All problems of the document `name`, a line each."""
    return "\n".join(f"{name}: {problem}" for problem in found)


def _sentence(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """What is wrong, from the type, the message and the context that pydantic gives."""
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be one of {context['expected']}".replace("'", "").replace(" or ", ", ")
    if kind == "string_pattern_mismatch" and context["pattern"] in _PATTERNS:
        return _PATTERNS[context["pattern"]]
    return _SENTENCES.get(kind) or message.replace("Input should", "must").replace("String should", "must")


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _number(text: str) -> int | float:
    """10.0 is an integer in JSON's own terms."""
    number = float(text)
    return int(number) if number.is_integer() else number
