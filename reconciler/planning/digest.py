"""The digest of a plan: of what it will do and what it relies on, the same in memory and from a file.

Approvals sign it. What differs between two plans that do the same is not in it: ids of runs and plans, the
moment, the revision (a squash merge makes another one of the same manifests), and all wording for people.
"""

import hashlib
import json
from typing import Any

from reconciler.core.steps import Plan
from reconciler.planning.as_json import plan_json

_WORDING = {"changes": ("reason", "advice"), "steps": ("note", "if_refused")}


def plan_digest(plan: Plan) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(plan_text(plan).encode()).hexdigest()


def plan_text(plan: Plan) -> str:
    """What the digest is of, as JSON."""
    document = plan_json(plan)
    signed: dict[str, Any] = {
        name: document[name]
        for name in ("changes", "steps", "expectations", "bindings", "inputs", "providers", "moves")
    }
    for name, wording in _WORDING.items():
        signed[name] = [_without(item, wording) for item in signed[name]]
    context, manifests = document["context"], document["manifests"]
    signed |= {name: context[name] for name in ("environment", "platform", "lineage")}
    signed |= {name: manifests[name] for name in ("digest", "targets")}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"))


def _without(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}
