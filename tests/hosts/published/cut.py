"""`python -m tests.hosts.published.cut HOST FILE`: cut what `reconcile comment` needs out of FILE.

FILE is the description that the host publishes, as JSON: OpenAPI 3 of GitHub and GitLab, Swagger 2 of Gitea.
What is kept are facts: paths, names, types, which of them are required. No wording of theirs is kept, and of
answers only what is required or read by `reconciler/hosts/`. The sources stand in `__init__.py`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BASES = {"github": "", "gitlab": "/api/v4", "gitea": ""}  # of the paths in the description
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "github": (
        "GET /user",
        "GET /repos/{owner}/{repo}/pulls/{pull_number}",
        "GET /repos/{owner}/{repo}/issues/{issue_number}/comments",
        "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
        "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
        "POST /repos/{owner}/{repo}/statuses/{sha}",
    ),
    "gitlab": (
        "GET /user",
        "GET /projects/{id}/merge_requests/{merge_request_iid}",
        "GET /projects/{id}/merge_requests/{noteable_id}/notes",
        "POST /projects/{id}/merge_requests/{noteable_id}/notes",
        "PUT /projects/{id}/merge_requests/{noteable_id}/notes/{note_id}",
        "POST /projects/{id}/statuses/{sha}",
    ),
    "gitea": (
        "GET /user",
        "GET /repos/{owner}/{repo}/pulls/{index}",
        "GET /repos/{owner}/{repo}/issues/{index}/comments",
        "POST /repos/{owner}/{repo}/issues/{index}/comments",
        "PATCH /repos/{owner}/{repo}/issues/comments/{id}",
        "POST /repos/{owner}/{repo}/statuses/{sha}",
    ),
}
_READ = {"id", "login", "username", "body", "html_url", "system", "number", "iid"}
_READ |= {"sha", "merge_commit_sha", "squash_commit_sha", "name", "state", "status", "message"}
_LOOKED_INTO = {"user", "author", "creator", "head"}  # objects whose fields are read, too
_RULES = ("type", "enum", "format", "minLength", "maxLength", "minimum", "maximum")


def cut(host: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """For each operation: schemas of its path's and query's parameters, of its body, and of its answers."""
    found = {}
    for operation in OPERATIONS[host]:
        method, path = operation.split()
        described = document["paths"][BASES[host] + path][method.lower()]
        found[operation] = _operation(document, described)
        if host == "gitlab":
            found[operation]["answers"] = _with_nulls(found[operation]["answers"])
    return found


def _operation(document: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    parameters = [_resolved(document, each) for each in described.get("parameters", [])]
    body = _json_of(document, _resolved(document, described.get("requestBody") or {}))
    found: dict[str, Any] = {"path": {}, "query": {}, "body": _schema(document, body, whole=True)}
    for each in parameters:
        if each["in"] == "body":
            found["body"] = _schema(document, each["schema"], whole=True)
        elif each["in"] in found:
            found[each["in"]][each["name"]] = _schema(document, each.get("schema", each), whole=True)
    found["answers"] = {
        status: _schema(document, _json_of(document, _resolved(document, answer)), whole=False)
        for status, answer in described["responses"].items()
    }
    return found


def _with_nulls(schema: Any) -> Any:
    """GitLab's description never says what of an answer may be null; the examples of its pages have nulls."""
    if isinstance(schema, list):
        return [_with_nulls(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_nulls(each) for name, each in schema.items()}
    properties = found.get("properties", {})
    for name, each in properties.items():
        if isinstance(each.get("type"), str):
            properties[name] = {**each, "type": [each["type"], "null"]}
    return found


def _resolved(document: Mapping[str, Any], value: Any) -> Any:
    while isinstance(value, dict) and "$ref" in value:
        found: Any = document
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        value = found
    return value


def _json_of(document: Mapping[str, Any], described: Mapping[str, Any]) -> Any:
    return described.get("schema") or described.get("content", {}).get("application/json", {}).get("schema")


def _schema(document: Mapping[str, Any], given: Any, *, whole: bool) -> Any:
    """As JSON Schema. Objects are closed: a name that is not described is a mistake."""
    given = _resolved(document, given)
    if not given:
        return None
    for several in ("oneOf", "anyOf"):
        if several in given:
            found: dict[str, Any] = {
                "anyOf": [_schema(document, each, whole=whole) for each in given[several]]
            }
            return {"anyOf": [*found["anyOf"], {"type": "null"}]} if given.get("nullable") else found
    rules = {name: given[name] for name in _RULES if name in given}
    if rules.get("type") == "array":
        rules["items"] = _schema(document, given["items"], whole=whole)
    if "properties" in given:
        required = [name for name in given.get("required", []) if name in given["properties"]]
        kept = {
            name for name in given["properties"] if whole or name in required or name in _READ | _LOOKED_INTO
        }
        rules["properties"] = {
            name: _schema(document, value, whole=whole)
            if whole or name in _LOOKED_INTO
            else _outline(document, value)
            for name, value in given["properties"].items()
            if name in kept
        }
        rules |= {"required": required, "additionalProperties": False}
    if given.get("nullable"):
        rules["type"] = [rules["type"], "null"]
        if "enum" in rules:
            rules["enum"] = [*rules["enum"], None]
    return rules


def _outline(document: Mapping[str, Any], given: Any) -> Any:
    """Its type alone, where it is an object or a list that nobody reads."""
    found = _resolved(document, given)
    if "properties" not in found and "items" not in found:
        return _schema(document, found, whole=False)
    return {"type": [found["type"], "null"] if found.get("nullable") else found["type"]}


def main(host: str, file: Path) -> None:
    found = cut(host, json.loads(file.read_text()))
    (HERE / f"{host}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
