"""Windows and freezes as values."""

import json
from typing import Any

from reconciler.guardrails.limit import Limit


def window(name: str, opens: str, lasts: str, timezone: str = "UTC", *impacts: str) -> Limit:
    spec = {"impacts": impacts or ("restart",), "opens": opens, "for": lasts, "timezone": timezone}
    return Limit("Window", name, json.dumps(spec), f"guardrails/{name}.yaml:3:17")


def freeze(name: str, begins: str, ends: str, *exempt: str) -> Limit:
    spec: dict[str, Any] = {"from": begins, "until": ends, "reason": "sale"}
    spec |= {"except": exempt} if exempt else {}
    return Limit("Freeze", name, json.dumps(spec), f"guardrails/{name}.yaml:3:17")
