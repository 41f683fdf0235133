"""The fields of a secret's manifest.

A template is text with placeholders for variables and for fields of other resources.
"""

import re
from typing import Any

from pydantic import Field as Describe

from reconciler.core.model import Address
from reconciler.core.steps import OutputRef, SecretRef
from reconciler.kinds.manifest import Spec
from reconciler.kinds.source import ValueSource

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,126}"
# A secret's name on the platform: one segment of a path. Its API sets no other form.
ANY_NAME = r"[^\s./\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*"


class SecretSource(ValueSource):
    """The source of a secret's value; the only one that may be a template."""

    template: str | None = Describe(
        None,
        min_length=1,
        description="Text with ${env:NAME} and ${Kind/name:field.path} in it; $${ stands for ${.",
        examples=["postgres://app:${env:PW}@${PostgresCluster/orders:endpoints.primary.pooler.host}/app"],
    )


class SecretSpec(Spec):
    """A secret of an app. Its value comes from outside the manifest, and is set, never read back."""

    name: str | None = Describe(
        None,
        max_length=255,
        pattern=f"^{ANY_NAME}$",
        description="Name on the platform; default: metadata.name. Programs see it only if it is a valid "
        "variable name: letters, digits and `_`.",
        examples=["DATABASE_URL"],
    )
    value_from: SecretSource = Describe(description="Where the value comes from; never the value itself.")


_PLACEHOLDER = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<inner>[^{}]*)\}|(?P<open>\$\{)")

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_template(text: str) -> tuple[list[str | OutputRef | SecretRef], list[str]]:
    """Return the parts of a template and its problems, which name positions: the text may be secret."""
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
