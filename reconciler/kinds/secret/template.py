"""Templates of secret values: text with placeholders for variables and for fields of other resources."""

import re
from typing import Any

from reconciler.core.model import Address
from reconciler.core.steps import OutputRef, SecretRef

_PLACEHOLDER = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<inner>[^{}]*)\}|(?P<open>\$\{)")

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_template(text: str) -> tuple[list[str | OutputRef | SecretRef], list[str]]:
    """The parts of a template, and what is wrong with it (by position: the text may be secret)."""
    parts: list[str | OutputRef | SecretRef] = []
    problems = []
    end = 0
    for number, found in enumerate(_PLACEHOLDER.finditer(text), start=1):
        if found.start() > end:
            parts.append(text[end : found.start()])
        end = found.end()
        if found["escaped"]:
            parts.append("${")
            continue
        part = _placeholder(found["inner"]) if found["inner"] is not None else None
        if part is None:
            problems.append(
                f"placeholder {number} of the template is neither ${{env:NAME}} nor ${{Kind/name:field}}"
            )
        else:
            parts.append(part)
    if end < len(text):
        parts.append(text[end:])
    return parts, problems


def _placeholder(inner: str) -> Any:
    source, _, path = inner.partition(":")
    if source == "env":
        return SecretRef("env", path) if _ENV_NAME.fullmatch(path) else None
    try:
        address = Address.parse(source)
    except ValueError:
        return None
    return OutputRef(str(address), path) if path else None
