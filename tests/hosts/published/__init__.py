"""What the hosts publish of their APIs, as far as `reconcile comment` needs it. See cut.py for what is kept.

Sources:
- github.json: GitHub's REST API description, github/rest-api-description, as @octokit/openapi 23.0.2
  publishes it (`generated/api.github.com.json`). Licence: MIT.
- gitea.json: Gitea 1.27.3, `templates/swagger/v1_json.tmpl` of go-gitea/gitea. Licence: MIT.
- gitlab.json: GitLab's REST API, `doc/api/openapi/openapi_v3.yaml` of gitlab-org/gitlab, as
  laconicman/swift-gitlab f2dcdc7 keeps it. That one calls a list what GitLab's file calls a single object,
  in version 19.5, too: the list of notes. GitLab's pages show a list. The file is under CC BY-SA 4.0:
  nothing is kept of it but names and types.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.reports.schemas import Schema

# What is sent, and no description has. Gitea lists all comments of an issue at once; were a later version to
# page them as it pages other lists, a run that asked for one page only would not find its comment.
BEYOND: Mapping[str, frozenset[str]] = {"gitea": frozenset({"limit", "page"})}


@dataclass(frozen=True)
class Operation:
    """`answers`: by status; None for one that the description says nothing of."""

    name: str
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    answers: Mapping[str, Any]


class Description:
    """`problems_of_request` and `completed` are what a double asks. Paths are below the API's base."""

    def __init__(self, host: str, document: Mapping[str, Any]) -> None:
        self._beyond = BEYOND.get(host, frozenset())
        self._operations = [Operation(name, **described) for name, described in document.items()]

    def operation(self, method: str, path: str) -> Operation | None:
        """`path`: as it was sent, with its escapes: a slash within a value is not one of the path."""
        return next(
            (each for each in self._operations if _pattern(each.name).fullmatch(f"{method} {path}")), None
        )

    def problems_of_request(
        self, operation: Operation, path: str, query: Mapping[str, str], body: Any
    ) -> Iterator[str]:
        found = _pattern(operation.name).fullmatch(f"{operation.name.split()[0]} {path}")
        assert found is not None
        for name, text in found.groupdict().items():
            yield from _problems(operation.path.get(name), _parsed(operation.path.get(name), text), name)
        for name, text in query.items():
            if name in operation.query:
                yield from _problems(operation.query[name], _parsed(operation.query[name], text), name)
            elif name not in self._beyond:
                yield f"the query has `{name}`, which is not described"
        if operation.body is None and body is not None:
            yield "it has a body, and none is described"
        elif operation.body is not None:
            yield from _problems(operation.body, body, "the body")


def completed(operation: Operation, status: int, document: Any) -> Any:
    """`document` with whatever else the description of this answer requires."""
    schema = operation.answers.get(str(status))
    return document if schema is None else _filled(schema, document)


def problems_of_answer(operation: Operation, status: int, document: Any) -> Iterator[str]:
    yield from _problems(operation.answers.get(str(status)), document, f"the answer {status}")


@cache
def published(host: str) -> Description:
    return Description(host, json.loads(Path(__file__).with_name(f"{host}.json").read_text()))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """The names of parameters are made those of groups."""
    parts = re.split(r"\{(\w+)\}", name)
    texts = [f"(?P<{each}>[^/?]+)" if at % 2 else re.escape(each) for at, each in enumerate(parts)]
    return re.compile("".join(texts))


def _parsed(schema: Any, text: str) -> Any:
    """What `text` of a path or query is where its schema wants a number or a boolean."""
    text = unquote(text)
    if _takes(schema, "integer") and re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if _takes(schema, "boolean") else text


def _takes(schema: Any, kind: str) -> bool:
    if "anyOf" in (schema or {}):
        return any(_takes(each, kind) for each in schema["anyOf"])
    return kind in _types(schema)


def _types(schema: Any) -> list[str]:
    found = (schema or {}).get("type", [])
    return [found] if isinstance(found, str) else list(found)


def _problems(schema: Any, value: Any, what: str) -> Iterator[str]:
    if schema is not None:
        yield from (f"{what}: {each}" for each in _validator(json.dumps(schema)).problems(value))


@cache
def _validator(schema: str) -> Schema:
    return Schema(json.loads(schema))


def _filled(schema: Any, given: Any) -> Any:
    """`given`, or where it is missing the plainest value that `schema` allows."""
    if "anyOf" in schema:
        schema = schema["anyOf"][0]
    if isinstance(given, list):
        return [_filled(schema.get("items", {}), each) for each in given]
    if not isinstance(given, dict):
        return given
    known = schema.get("properties", {})
    missing = {name: _plainest(known[name]) for name in schema.get("required", []) if name not in given}
    return missing | {name: _filled(known.get(name, {}), value) for name, value in given.items()}


def _plainest(schema: Any) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    types = _types(schema)
    if "null" in types:
        return None
    if "object" in types:
        return _filled(schema, {})
    plain = {"string": "", "integer": 1, "number": 1, "boolean": False, "array": []}
    return plain[types[0]]
