"""Requests and answers as a person may read them: without secrets, signatures and configuration."""

import json
import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from reconciler.providers.check.request import Request
from reconciler.services.signing import HEADER
from reconciler.services.transport import Answer

MASK = "(sensitive)"
_MOST = 400  # characters of a body
_SECRET_NAMES = re.compile(r"secret|password|passwd|token|credential|api_?key|cookie", re.IGNORECASE)


class Exchange(Struct, frozen=True):
    """One request and its answer. `problem`: why there is no answer."""

    request: Request
    answer: Answer | None
    problem: str = ""


def sent(exchange: Exchange, values: Collection[str]) -> str:
    """The request as lines of text, without `values`, which are the known secrets."""
    request = exchange.request
    lines = [f"{request.method} {request.url}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower().startswith("ce-")]
    lines += [f"{HEADER}: (masked, {len(text)} characters)" for text in request.signatures]
    if not request.signatures:
        lines.append(f"no {HEADER}")
    if request.body:
        lines.append(_cut(request.body.decode("utf-8", "backslashreplace")))
    return _without("\n".join(lines), (*values, *request.signatures))


def came(exchange: Exchange, values: Collection[str]) -> str:
    """The answer as lines of text, without `values`; or why there is none."""
    answer = exchange.answer
    if answer is None:
        return exchange.problem
    kind = answer.headers.get("content-type", "without a content type")
    lines = [f"{answer.status} {kind}"]
    if "location" in answer.headers:
        lines.append(f"location: {without_values(answer.headers['location'])}")
    if answer.body:
        lines.append(_body(answer))
    return _without("\n".join(lines), (*values, *exchange.request.signatures))


def parsed(answer: Answer) -> Any:
    """The body as JSON; None when it is none."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None


def masked(value: Any, *, inside: bool = False) -> Any:
    """`value` without what may be secret: all of `config`, and whatever is called so."""
    if isinstance(value, dict):
        return {
            name: masked(item, inside=inside or name == "config" or bool(_SECRET_NAMES.search(name)))
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, inside=inside) for item in value]
    return MASK if inside and isinstance(value, str) else value


def values_of(answer: Answer) -> set[str]:
    """The values of `config` that are long enough to be distinct from other text."""
    body = parsed(answer)
    config = body.get("config") if isinstance(body, dict) else None
    values = config.values() if isinstance(config, dict) else ()
    return {value for value in values if isinstance(value, str) and len(value) > 5}


def _body(answer: Answer) -> str:
    value = parsed(answer)
    if value is not None:
        return _cut(json.dumps(masked(value), ensure_ascii=False))
    if answer.status < 400:
        return f"({len(answer.body)} bytes that are not JSON; not shown, because they may contain a secret)"
    return _cut(answer.body.decode("utf-8", "backslashreplace"))


def without_values(url: str) -> str:
    """The address without the values of its query: `code` and `state` open a session."""
    address, mark, query = url.partition("?")
    names = [pair.partition("=")[0] for pair in query.split("&") if pair]
    return f"{address}{mark}{'&'.join(f'{name}=…' for name in names)}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)"


def _without(text: str, values: Collection[str]) -> str:
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, MASK)
    return text
