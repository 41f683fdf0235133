"""One request and its answer, as both fronts see them, and the refusal that a handler may raise."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from msgspec import Struct, field

if TYPE_CHECKING:
    from jinja2 import Template

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


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
        """The first value of a query parameter; those nobody asks for are ignored."""
        return next(iter(self.parameters(name)), None)

    def parameters(self, name: str) -> list[str]:
        """All values of a query parameter that may be repeated."""
        return [value for key, value in parse_qsl(self.query, keep_blank_values=True) if key == name]

    def json(self) -> Any:
        """The decoded body, `{}` for an empty one. Raises Refusal 400 when it is not JSON."""
        if not self.body.strip():
            return {}
        try:
            return json.loads(self.body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Refusal(400, "the request body is not valid JSON", "invalid_argument") from None

    def object(self) -> dict[str, Any]:
        """The decoded body without its nulls, which mean missing. Raises Refusal 400 unless an object."""
        body = self.json()
        if not isinstance(body, dict):
            raise Refusal(400, "the request body must be a JSON object", "invalid_argument")
        return {key: value for key, value in body.items() if value is not None}


@dataclasses.dataclass(slots=True)
class Response:
    """An answer, and how the HTTP front is to spoil it.

    `delay_s` are real seconds to hold the answer back, `drip_s` those between two bytes of its body
    (in a long one, between two of a hundred pieces). `cut`: "drop" closes the
    connection without an answer, "truncate" in the middle of the body. `again_s`: for so many
    seconds of the world's clock after the request came, asking again may give a better answer.
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
        return json.loads(self.body)


class Refusal(Exception):
    """What a handler raises instead of answering; it must not have changed the world.

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


def reply(data: Any, status: int = 200) -> Response:
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


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
