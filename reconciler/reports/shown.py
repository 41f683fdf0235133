"""Values, owed work and counts of a plan as every format shows them, and JSON as reports print it."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from reconciler.core.model import SENSITIVE, Action
from reconciler.core.steps import OutputRef, Plan, SecretRef, Template
from reconciler.reports.visible import escaped


def shown(value: Any) -> Any:
    """`value` with references as templates and secrets hidden."""
    if isinstance(value, SecretRef):
        return SENSITIVE
    if isinstance(value, OutputRef | Template):
        return str(value)
    if isinstance(value, Mapping):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value


def in_json(value: Any) -> str:
    """`value` as JSON in one line, as `shown`."""
    return json.dumps(shown(value), ensure_ascii=False, default=str)


def owed_words(work: str, certainty: str) -> str:
    return work if certainty == "owed" else f"{work} ({certainty} whether needed)"


def count_actions(plan: Plan) -> Counter[Action]:
    """How often each action is done: a change may do several. What needs nothing counts as noop."""
    counts = Counter(action for change in plan.changes for action in change.actions)
    counts[Action.NOOP] += plan.unchanged
    return counts


def json_text(document: Any) -> str:
    """A parser reads the same values; a person sees the characters that would be invisible."""
    plain = to_builtins(document, builtin_types=(datetime,), enc_hook=str)
    text = json.dumps(plain, ensure_ascii=False, indent=2, default=datetime.isoformat)
    return "\n".join(escaped(line, spelled) for line in text.split("\n")) + "\n"


def spelled(character: str) -> str:
    """`character` as an escape of JSON."""
    return json.dumps(character)[1:-1] if not character.isascii() else f"\\u{ord(character):04x}"
