"""What `--strict` refuses though the platform may let it pass: whatever neither document describes.

So a client that passes here relies on nothing but described behaviour. Source: platform API, 4.
"""

import json
from typing import Any, get_args
from urllib.parse import parse_qsl

from pydantic import BaseModel

from reconciler.sandbox.exchange import Refusal, Request
from reconciler.sandbox.fields import INVALID, refused
from reconciler.sandbox.routing import Route


def check(route: Route, request: Request) -> None:
    """Raises Refusal: 400 for a query, body or repeated key that nothing reads, 415 for a media type
    other than JSON, 422 for a field that is not described, or null.
    """
    seen: set[str] = set()
    for name, _ in parse_qsl(request.query, keep_blank_values=True):
        if name not in route.query:
            raise Refusal(400, f"query parameter `{name}` is not described", INVALID)
        if name in seen and route.query[name].get("type") != "array":
            raise Refusal(400, f"query parameter `{name}` is repeated, but only one is read", INVALID)
        seen.add(name)
    if route.body is None:
        if request.body:
            raise Refusal(400, "this operation takes no body", INVALID)
        return
    if not request.body:
        return  # the handler says where one is required
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refusal(415, "the content type must be application/json", INVALID)
    try:
        body = json.loads(request.body, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return  # the handler says what is wrong with it
    if isinstance(body, dict):
        _check_fields(route.body, body)


def _check_fields(model: type[BaseModel], body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name not in model.model_fields:
            raise refused(name, "is not described")
        if value is None:
            raise refused(name, "must be omitted, not null")
        nested = next(
            (
                each
                for each in get_args(model.model_fields[name].annotation)
                if isinstance(each, type) and issubclass(each, BaseModel)
            ),
            None,
        )
        if nested and isinstance(value, dict):
            _check_fields(nested, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal(400, "a key is repeated in the body", INVALID)
    return found
