"""What is known already stands in calls as it is; only what an answer must bring is a template."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reconciler.core.steps import OutputRef, Step, Template
from reconciler.kinds.base import path_of, segment

Known = Mapping[str, Mapping[str, Any]]


def fill_known(step: Step, known: Known) -> Step:
    """`step` with the values of existing objects in its path and body. `known`: fields by address."""
    call = step.call
    if isinstance(call.path, Template):
        parts = [part if isinstance(part, str) else _segment(part, known) for part in call.path.parts]
        call = replace(call, path=path_of(*parts))
    if call.body is not None:
        call = replace(call, body={name: _filled(value, known) for name, value in call.body.items()})
    applied = step.effect.applied
    if any(isinstance(value, Template) for value in applied.values()):
        applied = {
            name: _filled(value, known) if isinstance(value, Template) else value
            for name, value in applied.items()
        }
    return step.replaced(applied, call=call)


def _segment(part: OutputRef, known: Known) -> str | OutputRef:
    found = _filled(part, known)
    return part if found is part else segment(str(found))


def _filled(value: Any, known: Known) -> Any:
    if isinstance(value, Template):
        parts = [_filled(part, known) for part in value.parts]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else value
    if not isinstance(value, OutputRef):
        return value
    found = known.get(value.source, {}).get(value.path)
    return value if found is None else found
