"""Guardrails to test with, as their files would hold them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from reconciler.core.diagnostics import Diagnostic
from reconciler.guardrails.limit import Limit, read_limits

GROWTH = {
    "kinds": ["Volume"],
    "actions": ["extend"],
    "require": "change.after.size_gb <= 2 * change.before.size_gb",
    "message": "at most double",
}


def written(kind: str, spec: dict[str, Any], name: str = "one") -> str:
    value = {"apiVersion": "reconciler/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return f"---\n{yaml.safe_dump(value, sort_keys=False)}"


def closed_now(name: str = "nights") -> str:
    """A window that opens in some six hours."""
    opens = datetime.now(UTC) + timedelta(hours=6)
    spec = {
        "impacts": ["online", "restart"],
        "opens": f"{opens:%-M %-H} * * *",
        "for": "1h",
        "timezone": "UTC",
    }
    return written("Window", spec, name)


def read(root: Path, text: str) -> tuple[Sequence[Limit], Sequence[Diagnostic]]:
    folder = root / "guardrails"
    folder.mkdir(exist_ok=True)
    (folder / "some.yaml").write_text(text)
    return read_limits(["guardrails/*.yaml"], root)


def limit(root: Path, spec: dict[str, Any], name: str = "one", kind: str = "Guardrail") -> Limit:
    (found,), problems = read(root, written(kind, spec, name))
    assert problems == ()
    return found
