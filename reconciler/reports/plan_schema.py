"""The JSON Schema of `plan -o json`, for policies and scripts that rely on it.

It says what is there. New keys may come in any version, so it forbids none; a new meaning of a key, or its
end, changes `format_version`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, get_args

from reconciler.core.diagnostics import Severity
from reconciler.core.model import Action, Effect, Impact
from reconciler.core.steps import Method
from reconciler.rehearsal.matrix import FAULTS, End
from reconciler.reports.documents import SUMMARY
from reconciler.reports.formats.json import FORMAT_VERSION

_Schema = dict[str, Any]

_DIGEST = "Of what the plan will do and relies on: the same for each plan that does the same."

_TEXT: _Schema = {"type": "string"}
_WHOLE: _Schema = {"type": "integer", "minimum": 0}
_TEXT_OR_NULL: _Schema = {"type": ["string", "null"]}
_NUMBER_OR_NULL: _Schema = {"type": ["integer", "null"], "minimum": 1}


def plan_schema() -> _Schema:
    """Of a plan, and of a plan that failed: that one has no more than diagnostics."""
    parts = {
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": _DIGEST},
        "context": _object(_CONTEXT, says="What the plan is about."),
        "changes": _list("change", "Resources that need something; one in progress is a noop."),
        "steps": _list("step", "Calls, each after those that come before it."),
        "owed": _list("owed", "Work that earlier calls left, such as a restart."),
        "diagnostics": _list("diagnostic", "Of all that is told. A plan with an error is not applied."),
        "summary": _object({each.value: _WHOLE for each in SUMMARY}, says="How often each action is done."),
    }
    optional = {
        "outside": {**_WHOLE, "description": "How many resources are not part of the plan."},
        "providers": {"type": "object", "additionalProperties": _TEXT, "description": "Addresses by name."},
        "rehearsal": _object(_REHEARSAL, _REHEARSAL_TOO, says="With --rehearse: how each call ends."),
        "forecast": _object(_FORECAST, says="With --at: what will have come to pass."),
        "budget": _object(_BUDGET, says="Where rate limits hold: what they make of this plan."),
        "moves": {"type": "array", "items": _object({"from": _TEXT, "to": _TEXT, "id": _TEXT})},
    }
    version = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "reconciler plan",
        "type": "object",
        "required": ["format_version", "diagnostics"],
        "dependentRequired": {"changes": [name for name in parts if name != "changes"]},
        "properties": {"format_version": version, **parts, **optional},
        "$defs": {
            "change": _object(_CHANGE, {"id": _TEXT, "also": _ALSO, "advice": _list("command")}),
            "field": _object(_FIELD, says="A secret's value is `(sensitive)`."),
            "step": _object(_STEP, _STEP_TOO),
            "owed": _object(_OWED, {"advice": _list("command")}),
            "diagnostic": _object(_DIAGNOSTIC, _DIAGNOSTIC_TOO),
            "command": _object({"argv": _texts("Words in capitals are to be filled in.")}),
        },
    }


def _object(
    properties: Mapping[str, _Schema], optional: Mapping[str, _Schema] | None = None, *, says: str = ""
) -> _Schema:
    found = {
        "type": "object",
        "required": list(properties),
        "properties": {**properties, **(optional or {})},
    }
    return {"description": says, **found} if says else found


def _list(name: str, says: str = "") -> _Schema:
    found = {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}
    return {"description": says, **found} if says else found


def _texts(says: str) -> _Schema:
    return {"description": says, "type": "array", "items": _TEXT}


def _one_of(words: Iterable[StrEnum]) -> _Schema:
    return {"enum": [each.value for each in words]}


_BUDGET = {
    "requests": {**_WHOLE, "description": "How many were needed at least."},
    "limited_s": {
        "type": "number",
        "minimum": 0,
        "description": "How long the limits alone take for them, if answers come at once.",
    },
}
_CONTEXT = {
    "environment": _TEXT,
    "platform": _TEXT_OR_NULL,
    "state": _TEXT,
    "lineage": _TEXT_OR_NULL,
    "revision": _TEXT_OR_NULL,
    "dirty": {"type": ["boolean", "null"]},
    "version": _TEXT,
    "at": {"type": "string", "format": "date-time"},
}
_CHANGE = {
    "address": _TEXT,
    "action": _one_of(Action),
    "fields": _list("field"),
    "impact": _one_of(Impact),
    "reason": _TEXT,
}
_ALSO = {"description": "What it does besides.", "type": "array", "items": _one_of(Action)}
_FIELD: dict[str, _Schema] = {"path": _TEXT, "before": {}, "after": {}, "effect": _one_of(Effect)}
_STEP = {
    "id": _TEXT,
    "address": _TEXT,
    "method": {"enum": list(get_args(Method)), "description": "A GET sends nothing: the step only waits."},
    "path": {**_TEXT, "description": "`${ADDRESS:FIELD}` stands for what an earlier answer brings."},
    "body": {"type": ["object", "null"]},
    "after": _texts("Ids of the steps that must be done before."),
}
_STEP_TOO = {
    "service": {**_TEXT, "description": "The provider that the call goes to; absent for the platform."},
    "for_each": {**_TEXT, "description": "One call for each key of this mapping."},
    "wait": _object(
        {
            "path": _TEXT,
            "field": _TEXT,
            "until": {"anyOf": [{"type": "array"}, _object({"at_least": {"type": "integer"}})]},
            "timeout_s": {"type": "integer"},
        }
    ),
    "owes": _object({"work": _TEXT, "when": _TEXT}),
    "if_owed": {**_TEXT, "description": "Only sent if this machine still owes a restart."},
    "unless_recorded": {**_TEXT, "description": "Not sent if this field is recorded already."},
    "lane": {**_TEXT, "description": "Steps of one lane run one after another."},
}
_OWED = {"address": _TEXT, "work": _TEXT, "because": _TEXT, "certainty": {"enum": ["owed", "unknown"]}}
_DIAGNOSTIC = {
    "code": _TEXT,
    "severity": _one_of(Severity),
    "message": _TEXT,
    "file": _TEXT_OR_NULL,
    "line": _NUMBER_OR_NULL,
    "column": _NUMBER_OR_NULL,
}
_DIAGNOSTIC_TOO = {
    "notes": _texts("What else is known of it."),
    "help": _TEXT,
    "addresses": _texts("All resources that the problem affects."),
    "advice": _list("command"),
}
_CELL: dict[str, _Schema] = {
    "step": {**_TEXT_OR_NULL, "description": "null: the clean run."},
    "fault": {"enum": list(FAULTS)},
    "end": {"enum": list(get_args(End))},
    "owed": _list("owed"),
    "duration_s": {"type": "number", "minimum": 0},
}
_REHEARSAL: dict[str, _Schema] = {
    "steps": _texts("Ids of the steps whose calls suffered the faults."),
    "faults": {"type": "array", "items": {"enum": list(FAULTS)}},
    "cells": {"type": "array", "items": _object(_CELL, {"question": _TEXT, "error": _TEXT})},
    "differences": _texts("Where a clean run on the twin does not do as the plan says."),
    "digest": _TEXT,
}
_REHEARSAL_TOO: dict[str, _Schema] = {
    "assumptions": {
        "description": "What the API document leaves open and the ends rest on.",
        "type": "array",
        "items": _object({"name": _TEXT, "says": _TEXT}),
    },
    "sampled_of": {**_WHOLE, "description": "How many calls there are, if only some were disturbed."},
    "unrehearsed": {"type": "array", "items": _object({"address": _TEXT, "because": _TEXT})},
}
_FORECAST: dict[str, _Schema] = {
    "at": {"type": "string", "format": "date-time"},
    "after_apply": {"type": "boolean", "description": "The plan is carried out before."},
    "items": {
        "type": "array",
        "items": _object(
            {
                "address": _TEXT,
                "what": _TEXT,
                "when": {
                    "type": ["string", "null"],
                    "format": "date-time",
                    "description": "Since when; null where nobody can tell.",
                },
            }
        ),
    },
}
